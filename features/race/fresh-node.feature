@real-kernel @install-cni
Feature: A pod that is faster than the node agent (field S1)
  On a fresh node nobody asks for the plugin before the agent has installed it. What a pod sends until then goes past its proxy, unless something
  keeps its containers from their first instruction, or the pod from the node.

  Background:
    Given a node without the plugin

  @mutant:survey-blind
  Scenario: Without anything that checks its rules it runs past its proxy, and the agent tells
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When "cart" starts
    Then exposure of pod "cart" was above 0
    When the node agent is deployed
    Then the node agent tells of it: UnredirectedPod, "is not redirected as it should be"

  @mutant:validation-believes
  Scenario: With validation nothing of it runs before the agent has repaired it
    Given pod "cart" of the mesh
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And exposure of pod "cart" is measured
    When "cart" starts
    And the node agent is deployed
    Then exposure of pod "cart" was 0

  @mutant:dns-not-captured
  Scenario: Questions to resolvers count as well where they are to be captured
    Given pod "cart" of the mesh
    And its proxy's environment has ISTIO_META_DNS_CAPTURE = "true"
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And exposure of pod "cart" is measured
    When "cart" starts
    And the node agent is deployed
    Then exposure of pod "cart" was 0

  @mutant:no-inbound-capture
  Scenario: Connections to the pod count as well
    Given the chart's value "taint.mode" is "node"
    And the node is made with the taints "cni.istio.io/not-ready"
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    When "cart" is created
    And the node agent is deployed
    Then exposure of pod "cart" was 0

  @mutant:policies-need-repair
  Scenario: A pod that is deleted instead has another one in its place, behind the plugin
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And pod "cart" of the mesh
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And exposure of pod "cart" is measured
    And a Deployment keeps 1 pod like it
    And 1 of them came up unredirected
    When the node agent is deployed
    Then 1 other runs in its place
    And exposure of pod "cart" was 0

  @mutant:policies-need-repair
  Scenario: A pod that is labelled waits for whoever looks for the label
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_LABEL_PODS" is "true"
    And pod "cart" of the mesh
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And exposure of pod "cart" is measured
    When "cart" starts
    And the node agent is deployed
    Then it gets the label "cni.istio.io/uninitialized" = "true"
    And nothing of pod "cart" has run, and nothing got past

  @mutant:no-outbound-capture
  Scenario: With a taint on the node it waits for the plugin, without any validation
    Given the chart's value "taint.mode" is "node"
    And the node is made with the taints "cni.istio.io/not-ready"
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When "cart" is created
    Then it waits for a node: "untolerated taint"
    When the node agent is deployed
    Then exposure of pod "cart" was 0
