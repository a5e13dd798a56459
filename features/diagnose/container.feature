@real-kernel @install-cni @millrace
Feature: The diagnosis runs in the node agent's container as well
  Whoever may not log in to a node has kubectl exec. The container has the plugin's binary in its image, the node's processes below /host/proc
  and none of the node's namespaces where the runtime says that they are.

  @mutant:diagnose-of-container
  Scenario: By the namespace's path on the node
    Given the node agent is ready
    And pod "cart" of the mesh
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    When it is diagnosed in the node agent's container
    Then it is as it should be
