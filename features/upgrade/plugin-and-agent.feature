@real-kernel @install-cni
Feature: A plugin and an agent of two products get along (field S11)
  Who moves from one product to the other has both on a node for a while, and a runtime calls the plugin that it finds. Either side installs,
  and asks, in the words that both have. `ci/verify-upstream` plays this with upstream's plugin below our agent, and the reverse.

  Background:
    Given pod "outside" outside the mesh
    And the node agent is ready

  @mutant:no-outbound-capture
  Scenario: What the agent has installed redirects a pod that starts
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

  @mutant:no-outbound-capture
  Scenario: It does so where the agent is away, with the credentials that the agent has left
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the kubelet starts the node agent's containers no more
    And the node agent is killed
    And "cart" starts
    Then it comes up within 30 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
