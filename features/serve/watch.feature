@real-kernel @install-cni
Feature: The plugin is answered from what the agent watches
  The agent follows the pods of its node. What it knows costs no request, and what goes wrong with its watch is put right. A GET for each
  pod, and up to 30 of them, is istio#60472.

  Background:
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And pod "till" of the mesh

  @mutant:asked-each-time @mutant:own-pod-by-name
  Scenario: Pods cost the API server nothing, and the agent's log says what became of them
    When "cart" starts
    Then it runs
    When "till" starts
    Then it runs
    And TCP from "till" to "outside" port 8080 passes 15001
    And the API server was asked for a list of pods between 1 and 1 times
    And the API server was asked for a watch of pods between 1 and 1 times
    And the API server was asked for a get of pods between 0 and 0 times
    And the node agent says "traffic is redirected"

  @mutant:asked-each-time
  Scenario Outline: Not even where the API server <fault> when it is asked for a pod
    Given the API server <fault> on a get of pods
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the API server was asked for a get of pods between 0 and 0 times

    Examples:
      | fault       |
      | hangs       |
      | answers 401 |

  @mutant:asked-each-time
  Scenario: An agent that was killed knows the node's pods again
    When the node agent is killed
    Then the node agent follows the node's pods again
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the API server was asked for a get of pods between 0 and 0 times

  @mutant:reused-name-kept
  Scenario: A pod that was made again under its name is told as it is now
    When "outside" starts
    Then it runs
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    When it is deleted
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "8080"
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 is direct
    And the API server was asked for a get of pods between 0 and 0 times

  @millrace @mutant:uid-ignored
  Scenario: So it is where the watch has not told of it
    When "outside" starts
    Then it runs
    When "cart" starts
    Then it runs
    When the API server falls silent on a watch of the node's pods
    And it is deleted
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "8080"
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 is direct
    And its metrics have "millrace_cache_requests_total{result='miss'} 1"
