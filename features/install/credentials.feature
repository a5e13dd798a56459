@real-kernel @install-cni
Feature: The plugin's credentials follow the agent's (istio-38077)
  The kubeconfig holds a token that the kubelet renews beneath the agent. Whoever reads the old one is refused, so it has to be replaced
  before anybody has to wait.

  @mutant:token-kept
  Scenario: A renewed token reaches the kubeconfig before the next pod needs it
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the kubelet renews the node agent's token
    Then the kubeconfig holds the node agent's token within 1000 ms
    When the node agent is killed
    And "cart" starts
    Then it comes up within 30 s
    And TCP from "cart" to "outside" port 8080 passes 15001
