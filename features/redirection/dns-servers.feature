@real-kernel @istio-iptables
Feature: An init container catches DNS only on its way to the pod's resolvers
  It reads them from the pod's resolv.conf. What an app asks of another host is none of the agent's business. (A plugin
  cannot see that file and catches all of port 53.)

  Background:
    Given pod "resolver" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "afar" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its own init container programs its rules
    And its mesh's metadata has ISTIO_META_DNS_CAPTURE = "true"
    And its resolver is pod "resolver"

  @mutant:dns-not-captured
  Scenario Outline: Over <transport>
    Then <transport> from "cart" to "resolver" port 53 passes 15053
    And <transport> from "cart" to "resolver" port 53 as its proxy is direct

    Examples:
      | transport |
      | UDP       |
      | TCP       |

  @mutant:dns-servers-ignored
  Scenario: Another host's port 53 is a port like any other
    Then UDP from "cart" to "afar" port 53 is direct
    And TCP from "cart" to "afar" port 53 passes 15001

  @mutant:zone-missing
  Scenario: A question of the agent from a port that an app has just asked from
    Then UDP from "cart" to "resolver" port 53 from port 4053 passes 15053
    And UDP from "cart" to "resolver" port 53 as its proxy from port 4053 is direct

  @ipv6 @mutant:dns-not-captured @mutant:no-ipv6
  Scenario Outline: Over <transport> and IPv6
    Given its addresses are IPv6
    Then <transport> from "cart" to "resolver" port 53 over IPv6 passes 15053
    And <transport> from "cart" to "resolver" port 53 over IPv6 as its proxy is direct
    And UDP from "cart" to "afar" port 53 over IPv6 is direct

    Examples:
      | transport |
      | UDP       |
      | TCP       |
