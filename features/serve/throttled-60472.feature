@real-kernel @install-cni @long
Feature: A throttled API server does not bring back a GET for each pod (istio-60472; field S23)
  Priority and fairness answers 429 where too many ask at once, as when all nodes of a cluster come back together.

  @mutant:asked-each-time
  Scenario: The list of the node's pods is throttled, and sixteen pods start together once it is there
    Given a node without the plugin
    And the API server answers 429 with Retry-After 1 on a list of the node's pods the first 3 times
    And the node agent is deployed
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When 16 pods like it start at once
    Then each of them is redirected, at once or after a refusal with code 11
    And the API server was asked for a get of pods between 0 and 0 times
    And the API server was asked for a list of the node's pods between 4 and 4 times
