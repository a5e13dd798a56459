@real-kernel
Feature: Redirection does not depend on the machine's reverse path filter
  Distributions differ in rp_filter, and a pod's namespace inherits it. What a proxy gets by TPROXY keeps its client's address, and what the app
  answers turns around in the pod: a strict filter must drop neither.

  @mutant:no-outbound-capture
  Scenario Outline: REDIRECT with rp_filter <value>
    Given rp_filter is <value> on its node
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to itself port 8080 is direct

    Examples:
      | value |
      | 0     |
      | 1     |
      | 2     |

  @mutant:no-inbound-capture
  Scenario Outline: TPROXY with rp_filter <value>
    Given rp_filter is <value> on its node
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its inbound traffic is caught by TPROXY
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | value |
      | 0     |
      | 1     |
      | 2     |
