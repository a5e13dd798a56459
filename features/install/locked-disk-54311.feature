@real-kernel @install-cni
Feature: A directory that cannot be written is told of, and healed once it can (istio-54311; installer fault 6)
  The agent is of no use when it is dead: it stays, is not ready, and says which file it cannot write, why, and what ends that. What is there
  stays whole, and no list names a plugin that is not.

  @mutant:error-ends
  Scenario: A disk that is read-only for a while
    Given the CNI directory is on a disk of its own
    When that disk becomes read-only
    And the node agent is deployed
    Then the node agent is not ready: "Read-only file system"
    And the node agent is not ready: "10-lab.conflist"
    And the node agent is not ready: "mount the host's directory writable"
    And the node agent runs since its start
    When that disk becomes writable
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:error-ends @mutant:written-in-place
  Scenario: A disk that is full for a while
    Given the CNI directory is on a disk of its own
    And that disk is full
    When the node agent is deployed
    Then the node agent is not ready: "No space left on device"
    And the node agent is not ready: "free space on the node's disk"
    And the node agent runs since its start
    And the conflist "10-lab.conflist" is as it was
    And the CNI directory holds "10-lab.conflist, lost+found"
    When that disk has room again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:entry-too-early
  Scenario: No room for the plugin
    Given the plugins' directory is on a disk of its own
    And that disk is full
    When the node agent is deployed
    Then the node agent is not ready: "No space left on device"
    And the node agent is not ready: "free space on the node's disk"
    And the conflist "10-lab.conflist" is as it was
    And that disk holds what it held at first
    When that disk has room again
    Then the node agent becomes ready within 15 s
    And the plugin's binary is the node agent's

  @mutant:copied-over
  Scenario: No room for the next version's plugin
    Given the plugins' directory is on a disk of its own
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When that disk is full
    And a node agent of another version starts beside it
    Then the other version's agent is not ready: "No space left on device"
    And the plugin's binary is the node agent's
    When "cart" starts
    Then exposure of pod "cart" was 0
    When that disk has room again
    Then the plugin's binary is the other version's
    When the other version's pod is deleted
    Then the plugin's binary is the node agent's

  @mutant:entry-too-early
  Scenario: No room in the agent's run directory
    Given the node agent's run directory is on a disk of its own
    And that disk is full
    When the node agent is deployed
    Then the node agent is not ready: "No space left on device"
    And the node agent is not ready: "free space on the node's disk"
    And the conflist "10-lab.conflist" is as it was
    When that disk has room again
    Then the node agent becomes ready within 15 s

  @mutant:claim-needed
  Scenario: The run directory's disk fills up while the agent serves
    Given the node agent's run directory is on a disk of its own
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When that disk is full
    And "cart" starts
    Then exposure of pod "cart" was 0
    When the node agent is killed
    Then the node agent becomes ready within 20 s
    When somebody restores "10-lab.conflist"
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 1000 ms
