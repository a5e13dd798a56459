@real-kernel @install-cni @millrace
Feature: A redirected pod whose validation failed is left alone
  Validation ends with the same code where it cannot listen, as when init containers run again beside the living proxy. So the rules are read before
  a pod is deleted or labelled.

  Background:
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"

  @mutant:redirected-acted-on
  Scenario: It is not deleted
    Given the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And pod "cart" of the mesh
    And its validation fails whatever its rules are
    And the node agent is ready
    When it came up unredirected
    Then the node agent tells of it: AlreadyRedirected, "is redirected to port 15001"
    And its metrics have "millrace_unredirected_pods 0"
    And it stays for 2 s

  @mutant:redirected-acted-on
  Scenario: It is not labelled
    Given the node agent's setting "REPAIR_LABEL_PODS" is "true"
    And pod "cart" of the mesh
    And its validation fails whatever its rules are
    And the node agent is ready
    When it came up unredirected
    Then the node agent tells of it: AlreadyRedirected, "is redirected to port 15001"
    And its metrics have "millrace_unredirected_pods 0"
    And it does not get the label "cni.istio.io/uninitialized" for 2 s
