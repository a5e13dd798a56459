@real-kernel @install-cni
Feature: Only the pod that was seen broken is deleted
  A deletion names UID and version of what was seen. What the API server refuses is tried again, and told.

  Background:
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And pod "cart" of the mesh
    And an init container checks its rules

  @mutant:delete-unconditional
  Scenario: A pod that changed meanwhile is looked at again before it is deleted
    Given it came up unredirected
    And the API server hangs on a delete of pods the first time
    When the node agent is deployed
    And the node agent asks for a delete of pods
    And its annotation "example.com/owner" becomes "changed"
    And the API server is well again
    Then the node agent tells of it: DeleteBrokenPod, "failed to delete it"
    And it goes

  @mutant:failure-forgets
  Scenario Outline: A deletion that fails with <code> is tried again
    Given its containers are started once only
    And it came up unredirected
    And the API server answers <code> on a delete of pods the first 2 times
    When the node agent is deployed
    Then it goes
    And the node agent tells of it: DeleteBrokenPod, "failed to delete it"
    And the node agent counts 2 of `istio_cni_repair_pods_repaired_total{type="delete",result="fail"}`

    Examples:
      | code |
      | 409  |
      | 429  |
      | 500  |
