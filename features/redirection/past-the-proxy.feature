@real-kernel
Feature: No packet of the application leaves the pod past its proxy
  An answer tells which way a connection went. Auditors ask for every packet, the last ones of a connection included: they are
  counted where they leave, on the pod's interfaces, behind all rules.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:no-outbound-capture
  Scenario: Connections come and go over IPv4
    Given the packets of "cart" are captured
    When its application opens 20 TCP connections to "outside" port 8080
    Then 0 packets of its application left the pod past its proxy

  @ipv6 @mutant:no-ipv6
  Scenario: Connections come and go over IPv6
    Given its addresses are IPv6
    And the packets of "cart" are captured
    When its application opens 20 TCP connections to "outside" port 8080 over IPv6
    Then 0 packets of its application left the pod past its proxy
