@real-kernel
Feature: An init container of the app reaches the network only where the docs say so
  The plugin's rules are there before the pod's first container, and the proxy starts after the last of them that ends.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4
    And pod "cart" of the mesh
    And its addresses are IPv4

  @mutant:no-outbound-capture
  Scenario: Nobody listens on the proxy's port yet
    Given it has an init container "vault" that connects to "{outside}:8080"
    Then its init container "vault" fails with exit code 1
    And its init container "vault" has said "did not answer: Refused"

  @mutant:proxy-uid-captured
  Scenario: It runs as the proxy's user
    Given it has an init container "vault" that connects to "{outside}:8080" as user 1337
    Then it runs
    And its init container "vault" has said "answered directly"
    And TCP from "cart" to "outside" port 8080 passes 15001

  Scenario Outline: Its annotation <annotation> excludes where it goes
    Given its annotation "traffic.sidecar.istio.io/<annotation>" is "<value>"
    And it has an init container "vault" that connects to "{outside}:8080"
    Then it runs
    And its init container "vault" has said "answered directly"

    @mutant:annotation-ignored
    Examples:
      | annotation              | value        |
      | excludeOutboundPorts    | 8080         |
      | excludeOutboundIPRanges | {outside}/32 |

  @mutant:no-outbound-capture
  Scenario: The proxy is a native sidecar
    Given its proxy is a native sidecar
    And it has an init container "vault" that connects to "{outside}:8080"
    Then it runs
    And its init container "vault" has said "answered through a proxy"
