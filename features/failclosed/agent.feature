@real-kernel @millrace
Feature: The node's agent spares the API server, and its failure does not matter
  One question on a socket of the node answers what a request per pod would. If the agent does not help, the API
  server is asked.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:agent-ignored
  Scenario: With the agent up the API server is not asked at all
    Given the node's agent is up
    Then it starts within 3 s
    And the agent was asked for pods 1 time
    And the API server was not asked for anything
    And its rules are complete

  @mutant:agent-ignored
  Scenario: Not even where the API server does not answer
    Given the node's agent is up
    And the API server hangs
    Then it starts within 3 s
    And the API server was not asked for anything
    And its rules are complete

  Scenario Outline: An agent that is <how> is passed over
    Given the node's agent is <how>
    Then it starts within 5 s
    And the API server was asked for pods 1 time
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001

    @mutant:agent-final
    Examples:
      | how                 |
      | silent              |
      | talking garbage     |
      | of an older version |

    @mutant:agent-believed
    Examples:
      | how                 |
      | wrong about pods    |

  @mutant:fail-open
  Scenario Outline: With an agent that is <how> and an API server that refuses, the pod does not start
    Given the node's agent is <how>
    And the API server answers 403
    Then it fails to start within 5 s: code 11, "it answered 403"

    Examples:
      | how              |
      | silent           |
      | talking garbage  |
      | wrong about pods |
