@real-kernel @install-cni
Feature: Who leaves takes nothing away that is still needed (istio-59846, istio-61718; field S12; installer faults 5, 11 and 13)
  CRI-O calls DEL with the configuration that a pod was set up with, so the plugin's binary is on the node until no pod needs it.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:binary-not-kept @mutant:binary-removed-first
  Scenario: A pod that the plugin set up outlives the agent
    Given the node agent is ready
    And exposure of pod "cart" is measured
    When "cart" starts
    Then it runs
    When the DaemonSet is deleted, its rights first
    Then the conflist "10-lab.conflist" is as it was
    And the plugin's binary is on the node
    And exposure of pod "cart" was 0

  @mutant:binary-always-kept
  Scenario: Without any pod nothing stays
    Given the node agent is ready
    When the DaemonSet is deleted
    Then the plugin's binary is gone
    And nothing of ours is left on the node
