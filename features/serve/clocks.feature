@real-kernel @install-cni
Feature: The node's clock is another than the API server's
  Machines drift apart where nobody sets their clocks. What the agent takes from the API server's times must not depend on it, and what it
  cannot have before a time comes it gets when the time has come.

  Background:
    Given a node without the plugin
    And pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:no-inbound-capture
  Scenario Outline: The API server's is five minutes <how>
    Given the API server's clock is 5 minutes <how>
    And the node agent is ready
    And exposure of pod "cart" is measured, inbound as well
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    Examples:
      | how    |
      | ahead  |
      | behind |

  @mutant:no-inbound-capture
  Scenario: The API server's certificate is of a time to come
    Given the node agent is ready
    And its log may have the error "not yet valid"
    When the API server has a certificate of a clock that is 4 s ahead
    And "cart" starts
    Then it comes up within 30 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And the node agent runs since its start
