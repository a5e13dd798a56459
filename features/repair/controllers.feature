@real-kernel @install-cni @long
Feature: Repair of pods that a controller makes
  A deletion helps because a controller makes another pod, which comes up behind the plugin. Until then each kind counts and names its pods
  in a way of its own: a Job counts a pod that is deleted as failed, a StatefulSet gives the next one the same name.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And its proxy is a native sidecar

  @mutant:policies-need-repair
  Scenario Outline: The deleted pods of a <kind> are replaced by redirected ones
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And exposure of pod "cart" is measured
    And a <kind> keeps 2 pods like it
    And <broken> of them came up unredirected
    When the node agent is deployed
    Then 2 others run in their place
    And exposure of pod "cart" was 0

    Examples:
      | kind       | broken |
      | ReplicaSet | 2      |
      | Deployment | 2      |

  @mutant:policies-need-repair
  Scenario: The pods of a StatefulSet come again under their names
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And exposure of pod "cart" is measured
    And a StatefulSet keeps 2 pods like it
    And 1 of them came up unredirected
    When the node agent is deployed
    Then 2 others run in their place
    And they are called "cart-0, cart-1"
    And exposure of pod "cart" was 0

  @mutant:priority-swapped
  Scenario: A Job does not count a pod that is repaired
    Given the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And a Job runs it with restartPolicy OnFailure and backoffLimit 6
    And 1 of them came up unredirected
    When the kubelet starts its containers no more
    And the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    When the kubelet starts its containers again
    Then the Job is Complete, with 1 succeeded and 0 failed

  @mutant:priority-swapped
  Scenario: A Job of three completions goes on after the pod that is repaired
    Each restart of a validation counts against the limit, so the pods of a Job with a small one have little time.

    Given the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And a Job runs it 3 times with restartPolicy OnFailure and backoffLimit 6
    And 1 of them came up unredirected
    When the kubelet starts its containers no more
    And the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    When the kubelet starts its containers again
    Then the Job is Complete, with 3 succeeded and 0 failed

  @mutant:policies-need-repair
  Scenario: A Job of three completions makes another one for the pod that is deleted
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And a Job runs it 3 times with restartPolicy OnFailure and backoffLimit 6
    And 1 of them came up unredirected
    When the kubelet starts its containers no more
    And the node agent is deployed
    Then it goes
    And the Job is Complete, with 3 succeeded and 1 failed

  @mutant:policies-need-repair
  Scenario: A Job counts a pod that is deleted as failed, and makes another one
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And a Job runs it with restartPolicy OnFailure and backoffLimit 6
    And 1 of them came up unredirected
    When the kubelet starts its containers no more
    And the node agent is deployed
    Then it goes
    And the Job is Complete, with 1 succeeded and 1 failed
