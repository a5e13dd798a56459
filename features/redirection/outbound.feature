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
    And its namespace holds exactly the rules that it wants
