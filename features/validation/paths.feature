@real-kernel @istio-iptables
Feature: What one connection cannot show is looked at as well
  A pod can redirect the one connection that upstream tries, and lose other traffic. What is found is said by name. It fails
  nothing, so that no pod is held back that would start elsewhere, unless the mesh asks for that.

  Background:
    Given pod "cart" of the mesh
    And an init container checks its rules

  @ipv6 @mutant:second-family-unseen @mutant:paths-always-enforced
  Scenario: Its second family has no rules
    Given its addresses are IPv4 and IPv6
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    And its namespace loses its rules of IPv6
    When its containers start again
    Then it runs
    And its init container "istio-validation" has said "path is not as it should be path=second family"

  @ipv6 @mutant:second-family-unseen @mutant:paths-never-enforced
  Scenario: Its second family has no rules, and its mesh is strict
    Given its addresses are IPv4 and IPv6
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    And its mesh's metadata has MILLRACE_VALIDATE_PATHS = "enforce"
    And its namespace loses its rules of IPv6
    When its containers start again
    Then its init container "istio-validation" fails with exit code 126
    And its init container "istio-validation" has said "failed to validate redirection: second family: "

  @mutant:single-ports-unseen @mutant:paths-always-enforced
  Scenario: Its rules were made without DNS capture
    Given its mesh's metadata has ISTIO_META_DNS_CAPTURE = "true"
    And its mesh's metadata has CAPTURE_ALL_DNS = "true"
    And its namespace loses its DNS rules
    When its containers start again
    Then it runs
    And its init container "istio-validation" has said "path is not as it should be path=DNS setting"

  @mutant:single-ports-unseen @mutant:paths-never-enforced
  Scenario: Its rules were made without DNS capture, and its mesh is strict
    Given its mesh's metadata has ISTIO_META_DNS_CAPTURE = "true"
    And its mesh's metadata has CAPTURE_ALL_DNS = "true"
    And its mesh's metadata has MILLRACE_VALIDATE_PATHS = "enforce"
    And its namespace loses its DNS rules
    When its containers start again
    Then its init container "istio-validation" fails with exit code 126
    And its init container "istio-validation" has said "DNS setting"

  @mutant:policy-routes-unseen @mutant:paths-always-enforced
  Scenario: Its policy routes are gone
    Given its inbound traffic is caught by TPROXY
    And its namespace loses its policy routes
    When its containers start again
    Then it runs
    And its init container "istio-validation" has said "path is not as it should be path=TPROXY's policy routes"

  @mutant:policy-routes-unseen @mutant:paths-never-enforced
  Scenario: Its policy routes are gone, and its mesh is strict
    Given its inbound traffic is caught by TPROXY
    And its mesh's metadata has MILLRACE_VALIDATE_PATHS = "enforce"
    And its namespace loses its policy routes
    When its containers start again
    Then its init container "istio-validation" fails with exit code 126
    And its init container "istio-validation" has said "TPROXY's policy routes: mark 1337 and table 133: the rule or the local route is missing"

  @mutant:inbound-believed
  Scenario: Its inbound rules are gone, which is not proven without rights, and not called proven
    Given its inbound traffic is caught by TPROXY
    And its namespace loses its inbound rules
    When its containers start again
    Then it runs
    And its init container "istio-validation" has said "path cannot be proven from here path=inbound by TPROXY"
    And its init container "istio-validation" has not said "path holds path=inbound by TPROXY"

  @mutant:unproven-is-broken
  Scenario: What it has no rights to look at fails nothing, however strict its mesh is
    Given its mesh's metadata has MILLRACE_VALIDATE_PATHS = "enforce"
    Then it runs
    And its init container "istio-validation" has said "path cannot be proven from here path=rules"
    And its init container "istio-validation" has said "path cannot be proven from here path=inbound from outside"

  @mutant:paths-always-looked-at
  Scenario: Nobody looks where the mesh does not want it
    Given its mesh's metadata has MILLRACE_VALIDATE_PATHS = "off"
    Then it runs
    And its init container "istio-validation" has said "redirection works"
    And its init container "istio-validation" has not said "path="

  @mutant:validation-forgets-names
  Scenario: The proxy's user and group are given by their names
    Given its own init container programs its rules
    When its init container "istio-init" runs again with "-p 16001 -z 16006 -u root -g root --run-validation"
    Then it ends with exit code 0 and says "path holds path=rules"
