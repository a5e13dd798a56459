@real-kernel @install-cni
Feature: The node's programs are restarted while pods start
  An upgrade of a node's packages restarts both of them under whatever happens. A start that is cut off is made again.

  Background:
    Given 2 nodes
    And pod "outside" outside the mesh
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured

  @mutant:no-inbound-capture
  Scenario Outline: Eight pods start under a restart of the <program>
    When the node's <program> is restarted while 8 pods like it start
    Then each of them is redirected, at once or after a refusal with code 11
    And the node is ready
    And exposure of pod "cart" was 0

    Examples:
      | program |
      | runtime |
      | kubelet |
