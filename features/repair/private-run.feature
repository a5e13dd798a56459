@real-kernel @install-cni @long
Feature: Namespaces are found on nodes whose /run is no shared mount (k3d, Docker Desktop)
  A node that is a container has no shared mounts, and its runtime refuses a container that wants to follow one: "path "/var/run/netns" is
  mounted on "/run" but it is not a shared or slave mount". The agent looks at namespaces by way of the node's first process instead, which it
  may do wherever it enters them.

  Background:
    Given a node without the plugin
    And the node is a container, whose /run is no shared mount

  @mutant:node-root-unread
  Scenario: The agent starts, and finds a sandbox without a process where the runtime's cache says it is
    Given pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    And no process is in its namespace
    When the node agent is deployed
    Then the node agent becomes ready within 30 s
    And the node agent tells of it: RepairedBrokenPod
    And it comes up within 60 s
    And exposure of pod "cart" was 0

  @mutant:node-root-unread
  Scenario: It looks through the runtime's directory where the cache of an older runtime names no namespace
    Given the node's runtime is "containerd-1.6"
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    When the kubelet starts its containers no more
    Given no process is in its namespace
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    When the kubelet starts its containers again
    Then it comes up within 60 s
    And exposure of pod "cart" was 0
