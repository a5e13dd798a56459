@real-kernel @install-cni @millrace @long
Feature: A pod that starts before the node agent (istio-55913; field S1)
  On a fresh node, and after each reboot, pods can be faster than the agent. Their validation stops them; the agent gives them their
  rules, proves that those redirect, and the pods go on by themselves.

  Background:
    Given a node without the plugin
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured, inbound as well

  @mutant:cache-unread
  Scenario: It is repaired, proven, and goes on to run
    Given it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "IPv4: a packet to"
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 1"
    And its metrics have "millrace_broken_to_redirected_seconds_count 1"
    And the node agent has written pods' "nothing", and nothing else for 3 s
    And exposure of pod "cart" was 0
