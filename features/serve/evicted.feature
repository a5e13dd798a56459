@real-kernel @install-cni
Feature: A node that is short of memory evicts pods, and not its agent
  A kubelet takes down what is not critical, and leaves it in the API as pods that failed. The agent stays: pods that come once there is memory
  again need it. What was evicted had its rules, and no policy is about it.

  Background:
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And the node agent is ready
    And pod "cart" of the mesh
    And an init container checks its rules

  @mutant:agent-not-critical
  Scenario: Pods of a Deployment are evicted, and come again when there is memory
    When a Deployment keeps 2 pods like it
    Then 2 of them run on node "node-1"
    When the node runs short of memory
    Then 2 of them are evicted within 90 s
    When the node has enough memory again
    Then 2 others run in their place
    And no event says that the node agent was evicted
    And the node agent has written pods' "nothing", and nothing else for 3 s
