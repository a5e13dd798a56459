@real-kernel @install-cni @long
Feature: Repair on each container runtime (field S6)
  CRI-O starts no infra container unless a pod asks for more, so that a pod whose validation waits for its next run has no process at all. Runtimes
  also differ in what their cache says of a sandbox: cri-dockerd tells nobody the pod's UID.

  Scenario Outline: <runtime>: a pod without a process is found, repaired, proven, and goes on
    Given a node without the plugin
    And the node's runtime is "<runtime>"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    And no process is in its namespace
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "IPv4: a packet to"
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    @mutant:cache-unread
    Examples:
      | runtime      |
      | containerd-2 |
      | cri-o        |

  @mutant:cache-unread @mutant:processes-unseen
  Scenario: cri-dockerd: a pod that has a pause process alone is found, repaired, proven, and goes on
    Docker keeps no namespace anywhere: its path is the pause process'.

    Given a node without the plugin
    And the node's runtime is "cri-dockerd"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "IPv4: a packet to"
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
