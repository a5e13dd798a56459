@real-kernel @install-cni @long
Feature: A sandbox without a process (istio-60478; field S6)
  Runtimes need not keep a process in a sandbox, and a validation that waits for its next run is none. The runtime's cache says which
  namespace is the pod's.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected

  @mutant:cache-unread
  Scenario: It is found by the runtime's cache
    Given no process is in its namespace
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    And it comes up within 60 s
    And exposure of pod "cart" was 0
