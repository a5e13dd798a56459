@real-kernel @install-cni
Feature: The node's programs are restarted while pods start
  An upgrade of a node's packages restarts both of them under whatever happens. A start that is cut off is made again.

  Background:
    Given pod "outside" outside the mesh
    And the node agent is ready

  @mutant:no-inbound-capture
  Scenario Outline: Eight pods start under a restart of the <program>
    When the node's <program> is restarted while 8 pods of the mesh start
    Then each of them is redirected, at once or after a refusal with code 11
    And the node is ready

    Examples:
      | program |
      | runtime |
      | kubelet |
