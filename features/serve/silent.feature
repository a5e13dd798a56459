@real-kernel @fake-kernel @install-cni @long
Feature: A watch that tells nothing for 150 s is given up
  A connection that is half open carries nothing, and nobody says so. API servers send a bookmark every minute or so, even where nothing happens.
  The agent's time passes faster here, by a tracer.

  @mutant:silence-borne
  Scenario: It is begun anew, and what happened meanwhile is known
    Given the node agent's time passes 30 times as fast
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the API server falls silent on a watch of the node's pods the first time
    And "outside" starts
    Then it runs
    And the node agent follows the node's pods again
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:silence-borne
  Scenario: A node that is cut off in silence is known again once the network is there
    Nothing is reset: what the agent sends is lost.

    Given the node agent's time passes 30 times as fast
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When packets of the node agent are dropped in silence
    Then the node agent says "cannot reach the API server"
    When packets of the node agent pass again
    Then the node agent follows the node's pods again
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
