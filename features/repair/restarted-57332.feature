@real-kernel @install-cni @long
Feature: An agent that starts again knows what is to be done (istio-57332)
  What it had done and what it had still to do, it remembers nowhere: it looks at every pod of the node anew.

  @mutant:first-list-unseen
  Scenario: A pod that lost its rules while no agent ran, and of which nobody hears anything
    Given the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the kubelet starts the node agent's containers no more
    And the node agent is killed
    And its namespace loses its rules
    And the kubelet starts the node agent's containers again
    Then the node agent tells of it: RepairedBrokenPod
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was above 0

  @mutant:repair-believes
  Scenario: A repair that failed before is tried again after
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And it came up unredirected
    And its namespace keeps packets from being redirected
    When the node agent is deployed
    Then the node agent tells of it: RepairFailed, "did not meet the rule"
    When the kubelet starts its containers no more
    And the node agent is killed
    And its namespace lets packets be redirected
    Then the node agent tells of it: AlreadyRedirected, "redirection works"
    When the kubelet starts its containers again
    Then it comes up within 60 s
