@real-kernel @install-cni
Feature: The cluster's certificate authority is replaced beneath a running agent
  Pods are told to trust the former authority and a second one, then API servers get certificates of the second, then the former is withdrawn;
  kubelets bring each step to pods that run. Whoever reads its authorities once is cut off until somebody starts it again, and so is the plugin,
  which trusts whom its kubeconfig names.

  Background:
    Given pod "outside" outside the mesh
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    And pod "till" of the mesh

  @mutant:authorities-once
  Scenario: One after the other, as the manual says
    When pods are told to trust both authorities
    Then the kubeconfig trusts both authorities within 1000 ms
    When the API server's certificate is one of the second authority
    Then the node agent follows the node's pods again
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    When pods are told to trust the second authority alone
    Then the kubeconfig trusts the second authority alone within 1000 ms
    When "till" starts
    Then it runs
    And TCP from "till" to "outside" port 8080 passes 15001
    And the API server was asked for a get of pods between 0 and 0 times
    And the node agent runs since its start

  @mutant:authorities-once
  Scenario: The API server is first, and pods are told late
    When the API server's certificate is one of the second authority
    And "cart" starts
    Then it fails to start within 15 s: code 11, "ConfigMap kube-root-ca.crt"
    When pods are told to trust the second authority alone
    Then the kubeconfig trusts the second authority alone within 1000 ms
    And the node agent follows the node's pods again
    And it comes up within 30 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the node agent runs since its start
