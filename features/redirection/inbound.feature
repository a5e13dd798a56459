@real-kernel
Feature: What a pod of the mesh gets goes through its proxy
  The proxy catches inbound TCP on port 15006, knows which port it was meant for, and hands it to the app.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:no-inbound-capture
  Scenario: TCP over IPv4
    Given its addresses are IPv4
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 80 passes 15006

  @ipv6 @mutant:no-ipv6 @mutant:no-ipv6-helper
  Scenario: TCP over IPv6
    Given its addresses are IPv6
    Then TCP from "outside" to "cart" port 8080 over IPv6 passes 15006
    And TCP from "outside" to "cart" port 80 over IPv6 passes 15006

  @ipv6 @every-back-end @mutant:no-ipv6
  Scenario: TCP over both families, as a dual-stack proxy asks for
    Given its addresses are IPv6 and IPv4
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @ipv6 @every-back-end @mutant:every-address-counts
  Scenario: The first address decides where nobody asks for both families
    Given its addresses are IPv4 and IPv6
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 is direct

  @mutant:redirect-udp
  Scenario: UDP is left alone
    Then UDP from "outside" to "cart" port 8080 is direct
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:tunnel-captured
  Scenario: The tunnel port belongs to the proxy's peers and is not caught
    Then TCP from "outside" to "cart" port 15008 is direct

  @mutant:health-captured
  Scenario Outline: The proxy's own port <port>, for <what>, is reached as it is
    Then TCP from "outside" to "cart" port <port> ends at <port>

    Examples:
      | port  | what           |
      | 15020 | merged metrics |
      | 15021 | health         |
      | 15090 | its metrics    |

  @mutant:no-inbound-capture @mutant:no-outbound-capture
  Scenario: From one pod of the mesh to another both proxies are on the way
    Given pod "orders" of the mesh
    Then TCP from "cart" to "orders" port 8080 passes 15001 and 15006
