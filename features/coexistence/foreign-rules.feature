@real-kernel
Feature: The plugin shares a pod's tables with others
  Security agents, other plugins and people put rules of their own there. They stay as they are: the same rules, in
  the same order, not even removed and put back.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:tables-flushed
  Scenario: Rules of others that were there first
    Given its namespace holds rules of others around none of ours
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And the rules of others are the same, in the same order
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:tables-flushed @mutant:half-trusted
  Scenario: A half-applied state is replaced, with rules of others in between
    Given its namespace holds rules of others around half of ours
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And the rules of others are the same, in the same order
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:second-add-fails
  Scenario: Where everything is as it must be nothing is written
    Given its namespace holds rules of others around all of ours
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And nothing in its namespace was written
    And the rules of others are the same, in the same order
    And its rules are complete

  @ipv6 @mutant:tables-flushed
  Scenario: The same with both families
    Given its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    And its namespace holds rules of others around half of ours
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And the rules of others are the same, in the same order
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001
