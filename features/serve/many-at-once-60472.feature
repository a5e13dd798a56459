@real-kernel @install-cni @long
Feature: Many pods at once cost the API server nothing (istio-60472; field S23)
  A node that comes back starts all of its pods together. Each of them asks the agent, and none of them the API server.

  Background:
    Given pod "outside" outside the mesh
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh

  @mutant:asked-each-time @mutant:no-inbound-capture
  Scenario: Sixteen start together
    When 16 pods like it start at once
    Then each of them is redirected, at once or after a refusal with code 11
    And the API server was asked for a get of pods between 0 and 0 times
    And the API server was asked for a list of the node's pods between 1 and 1 times

  @mutant:asked-each-time @mutant:no-inbound-capture
  Scenario: A node is filled to the kubelet's limit of 110, twenty starting at a time
    When 110 pods like it start, 20 at a time
    Then each of them is redirected, at once or after a refusal with code 11
    And the API server was asked for a get of pods between 0 and 0 times
    And the API server was asked for a list of the node's pods between 1 and 1 times
