@real-kernel @install-cni @long
Feature: Whose a namespace is (istio-61211; field S7)
  Addresses and names are used again, and a sandbox need not hold a process. Rules are written only where address and sandbox both say
  that the namespace is the pod's.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected

  @mutant:address-is-enough
  Scenario: An address alone says nothing
    Given the runtime's cache does not know it
    And no process is in its namespace
    When the node agent is deployed
    Then the node agent tells of it: RepairFailed, "neither the CNI result cache nor a process says whose it is"
    And the node agent tells of it no RepairedBrokenPod for 3 s
    And nothing of pod "cart" has run, and nothing got past

  @mutant:names-are-enough
  Scenario: What is left of a former pod of its name is not the pod's
    Given a sandbox of its name and address is left of a former pod
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    And the namespace that is left holds no rule
    And exposure of pod "cart" was 0
