@real-kernel @install-cni
Feature: What is in a list stays as its writer wrote it (istio-27771; installer faults 12 and 14; field S9)
  Numbers beyond 2^53, unknown keys, their order: all of it is some other plugin's. Our entry is there once, at the end, and says what
  the settings say.

  @mutant:numbers-re-encoded
  Scenario: Keys that nobody knows and large numbers
    Given somebody adds "x-cookie" = 9007199254740993.10 to "10-lab.conflist"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the configuration "10-lab.conflist" contains "'x-cookie': 9007199254740993.10"
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was, byte for byte

  @mutant:written-in-place @mutant:empty-list-first
  Scenario: A reader sees the old list or the new one
    Given the CNI directory is watched
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was, byte for byte
    And at every moment it held a whole network

  @mutant:entry-unread
  Scenario: A changed setting reaches the list without a restart
    Given the node agent is ready
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "kube-system,builds"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system", "builds"]
