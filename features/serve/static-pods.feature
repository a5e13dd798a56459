@real-kernel @install-cni
Feature: A static pod is known by the kubelet's UID
  The kubelet makes a static pod up by itself, with a UID of its own; what the API server has is a mirror with another one, and an
  annotation that names the first.

  @mutant:mirror-unknown
  Scenario: It is found without a request, and redirected
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it is a static pod
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the API server was asked for a get of pods between 0 and 0 times
