@real-kernel @install-cni @long
Feature: The API server is restarted while pods start
  An upgrade of the control plane does so, for seconds or a minute. The kubelet goes on with the pods that it knows of, and the plugin asks the
  node's agent, which answers from what it has watched; whoever knows nothing of a pod refuses it, and the kubelet tries again.

  @mutant:no-inbound-capture
  Scenario: Eight pods start while it is away
    Given pod "outside" outside the mesh
    And the node agent is ready
    And pod "cart" of the mesh
    When the API server is restarted while 8 pods like it start
    Then each of them is redirected, at once or after a refusal with code 11
    And the node is ready
