@real-kernel @install-cni
Feature: A node that the DaemonSet no longer wants is uninstalled (istio-58768; field S13)
  The DaemonSet is there and its pod on this node goes: that is no upgrade, because no other agent will come.

  Background:
    Given the node agent is ready

  @mutant:affinity-ignored
  Scenario: The DaemonSet's affinity leaves the node out
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the DaemonSet's affinity leaves the node out
    Then the conflist "10-lab.conflist" is as it was
    And exposure of pod "cart" was 0

  @mutant:affinity-ignored
  Scenario: The node loses the label that the DaemonSet asks for
    When the node's label "kubernetes.io/os" is "plan9"
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node
