@real-kernel @istio-iptables
Feature: A pod that is redirected gets to its app, however its mesh is set up
  The check is the same for everybody: a connection as the proxy's, which rules must send to the proxy's inbound port.

  Background:
    Given pod "cart" of the mesh
    And an init container checks its rules

  @mutant:nothing-enrolled @mutant:no-outbound-capture @mutant:no-self-call
  Scenario: As most are
    Then it runs
    And its init container "istio-validation" has said "redirection works to=127.0.0.6:15002 port=15006"
    And its init container "istio-validation" has said "path holds path=tunnel port"

  @ipv6 @mutant:no-ipv6 @mutant:no-self-call @mutant:no-ipv6-helper
  Scenario: With addresses of IPv6 alone
    Given its addresses are IPv6
    Then it runs
    And its init container "istio-validation" has said "redirection works to=[::6]:15002 port=15006"

  @ipv6 @mutant:no-self-call
  Scenario Outline: With addresses of both families, <families>
    Given its addresses are <families>
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    Then it runs
    And its init container "istio-validation" has said "path holds path=second family"

    Examples:
      | families      |
      | IPv4 and IPv6 |
      | IPv6 and IPv4 |

  @mutant:no-self-call
  Scenario: With TPROXY, whose proxy is root: the check is not
    Given its inbound traffic is caught by TPROXY
    Then it runs
    And its init container "istio-validation" has said "redirection works to=127.0.0.6:15002 port=15006"
    And its init container "istio-validation" has said "path holds path=TPROXY's policy routes"
    And its init container "istio-validation" has said "path holds path=inbound by TPROXY"

  @any-uid @mutant:identity-fixed
  Scenario: With a proxy that runs as its namespace's user
    Given its proxy runs as user 1000659999 and group 1000659999
    Then it runs

  @mutant:no-self-call
  Scenario: With DNS capture
    Given its mesh's metadata has ISTIO_META_DNS_CAPTURE = "true"
    And its mesh's metadata has CAPTURE_ALL_DNS = "true"
    Then it runs
    And its init container "istio-validation" has said "path holds path=DNS setting"

  @millrace @mutant:no-self-call
  Scenario: With native nftables
    Given a node whose back end is nft
    And its mesh asks for native nftables
    Then it runs

  @mutant:no-self-call
  Scenario: As a native sidecar
    Given its proxy is a native sidecar
    Then it runs

  @mutant:validation-asks-once
  Scenario: Its rules come while it is being checked
    Given the node's network lacks the plugin
    And its mesh's metadata has PROBE_TIMEOUT = "20s"
    When it starts, and gets its rules while "istio-validation" waits for them
    Then it runs
    And TCP from "cart" to itself port 8080 as its proxy passes 15006

  @ipv6 @mutant:validation-asks-once
  Scenario: Its rules come while it is being checked over IPv6
    Given its addresses are IPv6
    And the node's network lacks the plugin
    And its mesh's metadata has PROBE_TIMEOUT = "20s"
    When it starts, and gets its rules while "istio-validation" waits for them
    Then it runs

  @mutant:validation-of-usual-ports
  Scenario: With a proxy that listens elsewhere
    Given its own init container programs its rules
    And its mesh's proxies listen on 16001 and 16006
    When istio-iptables runs in it as its proxy with "-p 16001 -z 16006 --run-validation --skip-rule-apply"
    Then it ends with exit code 0 and says "port=16006"
    When istio-iptables runs in it as its proxy with "--run-validation --skip-rule-apply --probe-timeout=200ms"
    Then it ends with exit code 126
