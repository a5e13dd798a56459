@real-kernel @install-cni @long
Feature: An autoscaler brings many nodes at once, and many pods wait for them (field S1)
  Whoever makes the nodes makes them with a taint. A pod goes to the first node whose agent is ready, and nothing checks its rules.

  Background:
    Given 4 nodes
    And every node is made with the taints "cni.istio.io/not-ready"

  @mutant:no-outbound-capture @millrace
  Scenario: A controller frees each node once its agent is ready
    Given the chart's value "taint.mode" is "untaint"
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured every 50 ms
    And a Deployment keeps 12 pods like it
    When the taint controller runs
    And the node agent is deployed
    Then exposure of pod "cart" was 0

  @mutant:no-outbound-capture
  Scenario: Each agent frees its own node
    Given the chart's value "taint.mode" is "node"
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured every 50 ms
    And a Deployment keeps 12 pods like it
    When the node agent is deployed
    Then exposure of pod "cart" was 0
