@real-kernel @istio-iptables
Feature: A pod whose traffic would pass by its proxy does not get to its app
  Where a plugin programs the rules, an injected init container proves that it did, with traffic of its own.

  Background:
    Given pod "cart" of the mesh
    And an init container checks its rules

  @mutant:validation-believes @mutant:validation-exit-code
  Scenario: Nobody has redirected it
    Given its proxy's environment has DISABLE_ENVOY = "true"
    Then its init container "istio-validation" fails with exit code 126

  @mutant:nothing-enrolled @mutant:no-outbound-capture
  Scenario: It is redirected
    Then it runs

  @ipv6 @mutant:no-ipv6
  Scenario: It is redirected, and has addresses of IPv6 alone
    Given its addresses are IPv6
    Then it runs
