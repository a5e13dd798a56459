@real-kernel @install-cni @long
Feature: Repaired is what was seen to redirect (istio-56587; field S5)
  That rules were written does not mean that packets follow them. A packet sent in the pod decides what the agent says of it.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected

  @mutant:repair-believes
  Scenario: Rules that do not redirect are no repair
    Given its namespace keeps packets from being redirected
    When the node agent is deployed
    Then the node agent tells of it: RepairFailed, "did not meet the rule"
    And the node agent tells of it no RepairedBrokenPod for 3 s
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 0"
    And nothing of pod "cart" has run, and nothing got past
