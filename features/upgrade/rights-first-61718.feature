@real-kernel @install-cni
Feature: The roles go before the DaemonSet does (istio-61718)
  A release that is removed loses its objects in no order. The watch of the DaemonSet was opened while that was allowed, and goes on.

  @mutant:deletion-unheard
  Scenario: Rights and DaemonSet are deleted, in this order
    Given the node agent is ready
    And the node agent follows the node's pods
    When the DaemonSet is deleted, its rights first
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:deletion-begun-unheard
  Scenario: Rights are deleted, then the DaemonSet, which waits for its pods
    Given the node agent is ready
    And the node agent follows the node's pods
    When the DaemonSet is deleted in the foreground, its rights first
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:binary-not-kept
  Scenario: What runs goes on behind its proxy
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    When the DaemonSet is deleted, its rights first
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And the plugin's binary is on the node
    And exposure of pod "cart" was 0
