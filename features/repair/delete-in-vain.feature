@real-kernel @install-cni @long
Feature: Pods that are made again after a deletion, and fail again, are deleted ever more slowly
  Where validation fails for a reason that is not the rules, a deletion mends nothing: the controller makes a pod that fails as well, and is
  deleted as well, for ever. Between two of them the agent waits, twice as long each time, and says so.

  @mutant:deleted-for-ever
  Scenario: A pod whose validation fails whatever its rules are
    The plugin stands in a list of its own, which pods are not set up by.

    Given a node without the plugin
    And the node agent's setting "CHAINED_CNI_PLUGIN" is "false"
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And pod "cart" of the mesh
    And its validation fails whatever its rules are
    And exposure of pod "cart" is measured
    And it is of the ReplicaSet "cart"
    And the node agent is deployed
    When its ReplicaSet makes it
    Then it goes
    When its ReplicaSet makes it again
    Then it goes
    When its ReplicaSet makes it again
    Then it goes
    When its ReplicaSet makes it again
    Then the node agent tells of it: DeletionDelayed, "3 times pods of its controller were deleted on this node"
    And nothing of pod "cart" has run, and nothing got past
