@real-kernel
Feature: TPROXY's policy routes are there exactly once
  Packets with the proxy's mark are looked up in a table of their own, which says that every address is local. Whoever sets
  a pod up again must not fail on what is there already.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its inbound traffic is caught by TPROXY

  @mutant:no-policy-routes
  Scenario: A pod gets them
    Then its packets with mark 1337 are looked up in table 133 once, where every address is local

  @mutant:second-add-fails @mutant:policy-rule-doubled
  Scenario: A second ADD
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And its packets with mark 1337 are looked up in table 133 once, where every address is local
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:policy-rule-mistaken
  Scenario: Somebody else's rule has the same mark and leads elsewhere
    Given its namespace has a policy rule for mark 1337 to table 77 instead of its own
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And its packets with mark 1337 are looked up in table 133 once, where every address is local
    And its packets with mark 1337 are looked up in table 77 once

  @ipv6 @mutant:no-policy-routes @mutant:second-add-fails
  Scenario: Over IPv6
    Given its addresses are IPv6
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And its packets with mark 1337 are looked up in table 133 once over IPv6, where every address is local
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @mutant:policy-routes-always
  Scenario: A pod without TPROXY has none
    Given pod "orders" of the mesh
    And it runs
    Then its packets with mark 1337 are not looked up in table 133
