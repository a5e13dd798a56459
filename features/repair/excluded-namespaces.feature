@real-kernel @install-cni
Feature: Namespaces that the plugin leaves alone
  What is excluded from redirection is not repaired either, whatever its validation says.

  Background:
    Given a node without the plugin
    And pod "core" of the mesh
    And it is in namespace "kube-system"
    And an init container checks its rules
    And it came up unredirected
    And pod "cart" of the mesh
    And an init container checks its rules
    And it came up unredirected

  @mutant:excluded-repaired
  Scenario: A broken pod of an excluded namespace is left alone
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    When "core" is meant
    Then the node agent tells of it no RepairedBrokenPod
