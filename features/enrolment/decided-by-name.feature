@real-kernel
Feature: Some pods are decided by their names alone
  They start when nobody can be asked about them: the node agent's own pod first of all.

  Background:
    Given the API server hangs

  @mutant:excluded-namespace-asked
  Scenario: A pod of an excluded namespace
    Given pod "dns" of the mesh
    And it is in namespace "kube-system"
    Then it starts within 5 s
    And its namespace holds no rule
    And the API server was not asked for anything

  @mutant:own-pod-asked
  Scenario: The node agent's own pod
    Given pod "istio-cni-node-x7k2p" of the mesh
    And it is in namespace "istio-system"
    Then it starts within 5 s
    And its namespace holds no rule
    And the API server was not asked for anything

  @mutant:no-pod-asked
  Scenario: A sandbox that is no pod
    Given a call of ADD
    When the plugin is called
    Then the plugin succeeds with
      """
      {"cniVersion": "1.1.0"}
      """
    And the API server was not asked for anything
