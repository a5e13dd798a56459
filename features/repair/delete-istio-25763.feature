@real-kernel @install-cni @long
Feature: Only the pod that was seen broken is deleted
  A deletion names UID and version of what was seen. A pod in a crash loop changes all the time: then the deletion conflicts, which is no
  failure, and is asked for again of the newer pod, unless that came up. What the API server refuses otherwise is tried again later, and told.

  Background:
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured

  @mutant:conflict-fails
  Scenario: A pod that changed meanwhile is looked at again before it is deleted
    Given it came up unredirected
    And the API server hangs on a delete of pods the first time
    When the node agent is deployed
    And the node agent asks for a delete of pods
    And its annotation "example.com/owner" becomes "changed"
    And the API server is well again
    And the node agent asks for a delete of pods, and is answered 409
    Then it goes
    And the node agent tells of it: DeleteBrokenPod, "pod detected as broken, deleted"
    And the node agent tells of it no DeleteBrokenPod, "failed to delete it" for 3 s
    And its metrics have "istio_cni_repair_pods_repaired_total{type='delete',result='fail'} 0"
    And nothing of pod "cart" has run, and nothing got past

  @mutant:conflict-fails
  Scenario: One that changes again and again is deleted without a failure
    Given its containers are started once only
    And it came up unredirected
    And the API server answers 409 on a delete of pods the first 5 times
    When the node agent is deployed
    Then it goes
    And the node agent tells of it no DeleteBrokenPod, "failed to delete it" for 3 s
    And its metrics have "istio_cni_repair_pods_repaired_total{type='delete',result='fail'} 0"
    And nothing of pod "cart" has run, and nothing got past

  @mutant:delete-unconditional @mutant:delete-by-uid @mutant:repaired-deleted
  Scenario: A pod that somebody repairs meanwhile is not deleted
    Given its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And it came up unredirected
    And the API server hangs on a delete of pods the first time
    When the kubelet starts its containers no more
    And the node agent is deployed
    And the node agent asks for a delete of pods
    And its namespace gets its rules
    And the kubelet starts its containers again
    Then it comes up within 60 s
    When the API server is well again
    And the node agent asks for a delete of pods, and is answered
    Then it stays for 2 s
    And exposure of pod "cart" was 0

  @mutant:failure-forgets
  Scenario Outline: A deletion that fails with <code> is tried again
    Given its containers are started once only
    And it came up unredirected
    And the API server answers <code> on a delete of pods the first 2 times
    When the node agent is deployed
    Then it goes
    And the node agent tells of it: DeleteBrokenPod, "failed to delete it"
    And its metrics have "istio_cni_repair_pods_repaired_total{type='delete',result='fail'} 2"
    And nothing of pod "cart" has run, and nothing got past

    Examples:
      | code |
      | 429  |
      | 500  |
