@real-kernel
Feature: The pod's DNS can go through the proxy's agent
  The agent knows names that no resolver has. It takes every question on port 15053 and asks the pod's own resolver for the
  rest. Who asked gets the answer from the address that it asked.

  Background:
    Given pod "resolver" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its proxy's environment has ISTIO_META_DNS_CAPTURE = "true"
    And its resolver is pod "resolver"

  @mutant:dns-not-captured
  Scenario Outline: Questions over <transport>
    Then <transport> from "cart" to "resolver" port 53 passes 15053
    And <transport> from "cart" to "resolver" port 53 as root passes 15053
    And <transport> from "cart" to "resolver" port 53 as user 2000 passes 15053

    Examples:
      | transport |
      | UDP       |
      | TCP       |

  @ipv6 @mutant:dns-not-captured
  Scenario Outline: Questions over <transport> and IPv6
    Given its addresses are IPv6
    Then <transport> from "cart" to "resolver" port 53 over IPv6 passes 15053

    Examples:
      | transport |
      | UDP       |
      | TCP       |

  @ipv6 @every-back-end @mutant:dns-not-captured
  Scenario: Both families of a dual-stack pod
    Given its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    Then UDP from "cart" to "resolver" port 53 passes 15053
    And UDP from "cart" to "resolver" port 53 over IPv6 passes 15053
    And TCP from "cart" to "resolver" port 53 passes 15053
    And TCP from "cart" to "resolver" port 53 over IPv6 passes 15053

  @ipv6 @every-back-end @mutant:every-address-counts
  Scenario: Of a pod whose first address is IPv4 nothing over IPv6
    Given its addresses are IPv4 and IPv6
    Then UDP from "cart" to "resolver" port 53 passes 15053
    And UDP from "cart" to "resolver" port 53 over IPv6 is direct
    And TCP from "cart" to "resolver" port 53 over IPv6 is direct

  @mutant:dns-loops
  Scenario Outline: The agent's own questions over <transport> are not caught again
    Then <transport> from "cart" to "resolver" port 53 as its proxy is direct
    And <transport> from "cart" to "resolver" port 53 as its proxy's user is direct
    And <transport> from "cart" to "resolver" port 53 as its proxy's group is direct

    Examples:
      | transport |
      | UDP       |
      | TCP       |

  @mutant:zone-missing
  Scenario: A question of the agent from a port that an app has just asked from
    Without a conntrack zone of its own it would be taken for the app's, and come back to the agent.

    Then UDP from "cart" to "resolver" port 53 from port 4053 passes 15053
    And UDP from "cart" to "resolver" port 53 as its proxy from port 4053 is direct

  @ipv6 @mutant:zone-missing
  Scenario: The same over IPv6
    Given its addresses are IPv6
    Then UDP from "cart" to "resolver" port 53 over IPv6 from port 4053 passes 15053
    And UDP from "cart" to "resolver" port 53 over IPv6 as its proxy from port 4053 is direct

  @mutant:exclusion-after-inclusion
  Scenario: An excluded port 53 is left alone
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "53"
    Then UDP from "cart" to "resolver" port 53 is direct
    And TCP from "cart" to "resolver" port 53 is direct

  @mutant:dns-not-captured
  Scenario: It does not matter whom the pod asks
    Given pod "afar" outside the mesh
    Then UDP from "cart" to "afar" port 53 passes 15053

  @mutant:dns-always-captured
  Scenario Outline: Only if the proxy asks for it: ISTIO_META_DNS_CAPTURE = "<value>"
    Given its proxy's environment has ISTIO_META_DNS_CAPTURE = "<value>"
    Then UDP from "cart" to "resolver" port 53 is direct
    And TCP from "cart" to "resolver" port 53 passes 15001

    Examples:
      | value |
      | false |
      |       |

  @mutant:every-port-is-dns
  Scenario: Other ports are not DNS
    Then UDP from "cart" to "resolver" port 8080 is direct
    And TCP from "cart" to "resolver" port 8080 passes 15001
