@real-kernel @install-cni
Feature: Where the runtime passes no UID, a pod is not taken for its namesake
  cri-dockerd names a pod by namespace and name only. What the agent remembers under that name may be a deleted pod, and what its rules were
  the new one's are not. So only what is read now counts.

  @mutant:namesake-believed
  Scenario: The watch has not told of the new pod
    Given the node's runtime is "cri-dockerd"
    And the node agent is ready
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When "outside" starts
    Then it runs
    When "cart" starts
    Then it runs
    When the API server falls silent on a watch of the node's pods
    And it is deleted
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "8080"
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to "outside" port 9090 passes 15001
