@real-kernel @install-cni @long
Feature: Two agents of two versions at once do not fight over the node
  A DaemonSet with maxSurge has the next agent on a node before the last one is gone. Each ships another plugin and has another token, so
  each would take the other's for damage and heal it, for as long as both live. The one that started last installs, the other one leaves
  the node alone, and takes over again when that one ends.

  @mutant:claim-unread
  Scenario: The one that started last installs, until it ends
    Given the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When a node agent of another version starts beside it
    Then the node agent says "another agent of this node started later"
    And the plugin's binary is the other version's
    When "cart" starts
    Then it comes up within 60 s
    When the other version's pod is deleted
    Then the node agent says "the other agent ended"
    And the plugin's binary is the node agent's
    And exposure of pod "cart" was 0
    When the DaemonSet is deleted
    And it is deleted
    And install-cni --purge is run on the node
    Then nothing of ours is left on the node
