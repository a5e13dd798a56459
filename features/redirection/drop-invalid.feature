@real-kernel
Feature: Packets that belong to no connection can be dropped
  Where the kernel has lost track of a connection, a late packet of it reaches the pod as it is, and the pod answers with
  a reset that may end a healthy connection. INVALID_DROP keeps such packets out.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:invalid-not-dropped
  Scenario Outline: The proxy asks for it: a <segment> of no connection vanishes
    Given its proxy's environment has INVALID_DROP = "<value>"
    Then a stray <segment> from "outside" to "cart" port 8080 vanishes
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | segment | value |
      | FIN     | true  |
      | SYN-ACK | true  |
      | FIN     | 1     |

  @ipv6 @mutant:invalid-not-dropped
  Scenario: The same over IPv6
    Given its addresses are IPv6
    And its proxy's environment has INVALID_DROP = "true"
    Then a stray FIN from "outside" to "cart" port 8080 over IPv6 vanishes
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @mutant:invalid-always-dropped
  Scenario Outline: Nobody asks for it: a <segment> of no connection is answered as ever
    Then a stray <segment> from "outside" to "cart" port 8080 is reset

    Examples:
      | segment |
      | FIN     |
      | SYN-ACK |

  @mutant:invalid-not-dropped
  Scenario: Ports that are not captured are protected, too
    Given its proxy's environment has INVALID_DROP = "true"
    And its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "8080"
    Then a stray FIN from "outside" to "cart" port 8080 vanishes
    And TCP from "outside" to "cart" port 8080 is direct
