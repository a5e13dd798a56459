@real-kernel @install-cni
Feature: The primary CNI comes last
  The agent is on the host's network and waits for a list that it can add the plugin to. When it comes, the kubelet starts what has waited, and
  nobody knows who is first; a pod that checks its rules need not know.

  @mutant:tolerations-dropped
  Scenario: Whoever sees the list first, nothing gets past
    Given 2 nodes
    And a node without the plugin
    And the node agent is on the host's network
    And pod "cart" of the mesh
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"
    And exposure of pod "cart" is measured
    And the primary CNI has yet to write its list
    And the node has the taints "node.kubernetes.io/not-ready" within 10 s
    When the node agent is deployed
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When "cart" starts
    Then it waits for the node's network
    When the primary CNI writes its list
    Then it comes up within 60 s
    And exposure of pod "cart" was 0
