@real-kernel @ipv6 @install-cni
Feature: The API's service has an IPv6 address
  In a cluster of IPv6 alone, pods are told an address that stands in brackets in a URL, and nowhere else. The node's runtime asks it by the
  kubeconfig that the agent writes.

  @mutant:service-unbracketed
  Scenario: The agent follows its pods, and the plugin asks by itself once the agent is gone
    Given a node without the plugin
    And the API's service has an IPv6 address
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the node agent follows the node's pods
    When the kubelet starts the node agent's containers no more
    And the node agent is killed
    And "cart" starts
    Then it runs
    And the API server was asked for a get of pods between 1 and 4 times
    And TCP from "cart" to "outside" port 8080 passes 15001
