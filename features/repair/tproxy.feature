@real-kernel @install-cni @long
Feature: A pod that catches inbound traffic by TPROXY is repaired as well
  It needs policy routes beside its rules. An agent that programmed it twice would fail upstream, at the second rule that is the same.

  @mutant:no-policy-routes
  Scenario: Its rules and its routes are there, and traffic follows them in both directions
    Given a node without the plugin
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its inbound traffic is caught by TPROXY
    And an init container checks its rules
    And exposure of pod "cart" is measured, inbound as well
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And exposure of pod "cart" was 0
