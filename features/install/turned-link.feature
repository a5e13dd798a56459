@real-kernel @install-cni
Feature: Directories of the node behind a link that turns (k3s-10931)
  k3s keeps the programs of each release in a directory of its own, and an upgrade turns a link to the new one. What is mounted for the agent
  stays the former directory, where no runtime looks any more.

  @mutant:orphan-stays
  Scenario: The plugin gets to where the link leads now
    Given the plugins' directory is a link to "v1"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And the node agent is ready
    And its log may have the error "what took its place cannot be seen from here"
    And exposure of pod "cart" is measured
    When the plugins' directory becomes a link to "v2"
    And "cart" starts
    Then it comes up within 40 s
    And the plugin's binary is the node agent's
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
    And the node agent becomes ready within 10 s
