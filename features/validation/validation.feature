@real-kernel @istio-iptables
Feature: A pod whose traffic would pass by its proxy does not get to its app
  Where a plugin programs the rules, an injected init container proves that it did, with traffic of its own. It has no rights
  at all. Exit code 126 is what a node agent that repairs pods looks for; every other failure has another one.

  Background:
    Given pod "cart" of the mesh
    And an init container checks its rules
    And its mesh's metadata has PROBE_TIMEOUT = "400ms"

  @mutant:validation-believes @mutant:validation-exit-code
  Scenario: Nobody has redirected it
    Given its proxy's environment has DISABLE_ENVOY = "true"
    Then its init container "istio-validation" fails with exit code 126
    And its init container "istio-validation" has said "nothing that was sent to 127.0.0.6:15002 arrived at the proxy's ports within 400ms"
    And its init container "istio-validation" has said "cni.repair.deletePods=true"

  @mutant:validation-believes
  Scenario: Its namespace is excluded by mistake
    Given the plugin's configuration has "exclude_namespaces" = ["kube-system", "shop"]
    Then its init container "istio-validation" fails with exit code 126

  @mutant:validation-believes @mutant:validation-exit-code
  Scenario: Nobody has installed the plugin on its node yet
    Given the node's network lacks the plugin
    Then its init container "istio-validation" fails with exit code 126

  @ipv6 @mutant:validation-believes
  Scenario: Nobody has redirected it, and it has addresses of IPv6 alone
    Given its addresses are IPv6
    And the node's network lacks the plugin
    Then its init container "istio-validation" fails with exit code 126
    And its init container "istio-validation" has said "nothing that was sent to [::6]:15002 arrived"

  @mutant:probe-timeout-ignored
  Scenario: It gives up when it is told to
    Given the node's network lacks the plugin
    And its init container "istio-validation" runs again
    Then it ends with exit code 126
    And it took at most 4000 ms

  @mutant:every-failure-is-126
  Scenario: A setting that means nothing is another failure
    Given its mesh's metadata has ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR = "10.0.0.0/8"
    Then its init container "istio-validation" fails with exit code 1

  @mutant:every-failure-is-126
  Scenario: No address is another failure
    Given it runs
    When its namespace loses its addresses
    And its containers start again
    Then its init container "istio-validation" fails with exit code 1
    And its init container "istio-validation" has said "no valid local IP address found"
