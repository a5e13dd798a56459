@real-kernel @install-cni @long
Feature: The node's clock is another than the API server's
  Machines drift apart where nobody sets their clocks. Whether a token counts is the API server's to say, by its own clock; and what cannot be
  had before its time is there when the time has come.

  Background:
    Given a node without the plugin
    And pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:token-judged
  Scenario Outline: By the node's clock each token <how it is>
    Given the API server's clock is <minutes> minutes <how>
    And the node agent is ready
    And exposure of pod "cart" is measured, inbound as well
    Then the node agent follows the node's pods
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    Examples:
      | how it is        | minutes | how    |
      | is not valid yet | 5       | ahead  |
      | has expired      | 120     | behind |

  @mutant:fail-open
  Scenario: The API server's certificate is of a time to come
    Given the node agent is ready
    When the API server has a certificate of a clock that is 8 s ahead
    Then the node agent says "certificate not valid yet"
    When "cart" starts
    Then it fails to start within 15 s: code 11, "the node's clock"
    And it comes up within 40 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And the node agent runs since its start
