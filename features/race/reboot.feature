@real-kernel @install-cni @long
Feature: A node reboots, and its pods are faster than the agent (istio-60882; field S3)
  Everything starts at once, and the agent is late. Where the network's configuration is kept the plugin is called and fails until the agent is
  there; an immutable system (Talos, Bottlerocket) begins as a fresh node, whatever taint that had.

  Background:
    Given 2 nodes

  @mutant:fail-open @mutant:no-inbound-capture
  Scenario: With its configuration kept nothing of a pod runs before the agent is there
    Given the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    When the kubelet starts the node agent's containers no more
    And the node reboots
    And the kubelet starts the node agent's containers again
    Then it comes up within 60 s
    And exposure of pod "cart" was 0

  @mutant:survey-blind
  Scenario: On an immutable system it runs past its proxy, and the agent tells
    Given the node is of an immutable system
    And the node agent is on the host's network
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the kubelet starts the node agent's containers no more
    And the node reboots
    And the primary CNI writes its list
    Then exposure of pod "cart" was above 0
    When the kubelet starts the node agent's containers again
    Then the node agent tells of it: UnredirectedPod, "is not redirected as it should be"
