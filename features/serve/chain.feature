@real-kernel
Feature: Keys of the API server are RSA, and its certificate is one of an intermediate authority
  kubeadm and managed clusters have RSA keys; organizations with an authority of their own certify clusters' authorities below it. Whoever trusts
  the root alone gets the rest of the chain from the server.

  @install-cni @mutant:agent-without-rsa @mutant:agent-without-chain
  Scenario: The node agent follows its pods
    Given a node without the plugin
    And the API server's certificate is one of an intermediate authority
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the node agent follows the node's pods

  @mutant:plugin-without-rsa
  Scenario: The plugin asks by itself
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And the API server's certificate is one of an intermediate authority
    Then it starts within 5 s
    And the API server was asked for pods 1 time
    And TCP from "cart" to "outside" port 8080 passes 15001
