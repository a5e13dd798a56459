@real-kernel @install-cni
Feature: A directory that cannot be written is told of, and healed once it can (istio-54311; installer fault 6)
  The agent is of no use when it is dead: it stays, is not ready, and says which file it cannot write, why, and what ends that. What is there
  stays whole.

  Background:
    Given the CNI directory is on a disk of its own

  @mutant:error-ends
  Scenario: A disk that is read-only for a while
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
    Given that disk is full
    When the node agent is deployed
    Then the node agent is not ready: "No space left on device"
    And the node agent is not ready: "free space on the node's disk"
    And the node agent runs since its start
    And the conflist "10-lab.conflist" is as it was
    And the CNI directory holds "10-lab.conflist, core.dump"
    When that disk has room again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
