@real-kernel @install-cni
Feature: Pods of a drained node come up redirected on another one
  A node that is drained is cordoned, and its pods are deleted; the agent's own pod stays. Their controller makes others, and the scheduler finds
  another node for them, with an agent of its own.

  @mutant:no-outbound-capture
  Scenario: A Deployment moves to the other node
    Given a node without the plugin
    And 2 nodes
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent is ready
    And pod "cart" of the mesh
    And an init container checks its rules
    When a Deployment keeps 2 pods like it
    And node "node-1" is drained
    Then 2 of them run on node "node-2"
