@real-kernel
Feature: What a pod of the mesh sends goes through its proxy
  The proxy catches outbound TCP on port 15001, knows where it was addressed to, and carries it on.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:no-outbound-capture
  Scenario: TCP over IPv4
    Given its addresses are IPv4
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 443 passes 15001
    And its rules are complete

  @ipv6 @mutant:no-ipv6
  Scenario: TCP over IPv6
    Given its addresses are IPv6
    Then TCP from "cart" to "outside" port 8080 over IPv6 passes 15001
    And TCP from "cart" to "outside" port 443 over IPv6 passes 15001
    And its rules are complete

  @ipv6 @every-back-end @mutant:no-ipv6
  Scenario: TCP over both families, as a dual-stack proxy asks for
    Given its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 passes 15001

  @ipv6 @every-back-end @mutant:every-address-counts
  Scenario: The first address decides where nobody asks for both families
    Given its addresses are IPv4 and IPv6
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 is direct

  @mutant:redirect-udp
  Scenario: UDP is left alone
    Then UDP from "cart" to "outside" port 8080 is direct
    And UDP from "cart" to "outside" port 53 is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:no-outbound-capture
  Scenario: It does not matter who sends it
    Then TCP from "cart" to "outside" port 8080 as root passes 15001
    And TCP from "cart" to "outside" port 8080 as user 2000 passes 15001
