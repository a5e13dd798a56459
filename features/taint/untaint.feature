@real-kernel @install-cni @millrace
Feature: A node that is made with a taint loses it once the agent is ready there (istio-53040; field S27)
  Nodes are made with the taint by whoever makes them. The controller only ever removes it, and no other.

  Background:
    Given the chart's value "taint.mode" is "untaint"

  @mutant:untaint-does-nothing
  Scenario: Pods come to a fresh node when the plugin is there, and not before
    Given the node is made with the taints "cni.istio.io/not-ready"
    And pod "web" outside the mesh
    And the taint controller runs
    When "web" is created
    Then it waits for a node: "untolerated taint"
    When the node agent is deployed
    Then the node agent becomes ready within 30 s
    And the node has the taints ""
    And it comes up within 30 s
    And one event "NodeUntainted" about the node counts 1

  @mutant:foreign-taint-removed
  Scenario: Taints of others stay, whatever they are called
    Given node "far" is made with the taints "node.cloudprovider.kubernetes.io/uninitialized, cni.istio.io/not-ready:NoExecute, cni.istio.io/not-ready, node.cilium.io/agent-not-ready"
    And the agent on node "far" is ready
    When the taint controller runs
    Then node "far" has the taints "node.cloudprovider.kubernetes.io/uninitialized, node.cilium.io/agent-not-ready"

  @mutant:untaint-does-nothing
  Scenario: A name of one's own
    Given node "far" is made with the taints "cni.istio.io/not-ready, mesh.example.com/wait"
    And the agent on node "far" is ready
    And the chart's value "taint.name" is "mesh.example.com/wait"
    When the taint controller runs
    Then node "far" has the taints "cni.istio.io/not-ready"

  @mutant:untaint-retaints
  Scenario: It is never put back (istio-53040)
    Given node "far" is made with the taints "cni.istio.io/not-ready"
    And node "near" is made with the taints "cni.istio.io/not-ready"
    And the agent on node "far" is ready
    And the taint controller runs
    And node "far" has the taints ""
    When the agent on node "far" is not ready
    And the agent on node "near" is ready
    Then node "near" has the taints ""
    And node "far" has the taints ""
    And the taint controller changed node "far" 1 time

  @mutant:untaint-does-nothing
  Scenario: A ready node that somebody taints again is freed again
    Given node "far" is made with the taints "cni.istio.io/not-ready"
    And the agent on node "far" is ready
    When the taint controller runs
    Then node "far" has the taints ""
    When somebody taints node "far" with "cni.istio.io/not-ready"
    Then node "far" has the taints ""
