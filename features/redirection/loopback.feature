@real-kernel
Feature: A pod that talks to itself
  The app reaches itself directly. Only the proxy's own way to the app's address goes through the inbound side, as it
  would have come from another pod.

  Background:
    Given pod "cart" of the mesh

  @mutant:loopback-captured
  Scenario: The app reaches itself by its loopback address and by its own
    Then TCP from "cart" to its loopback address port 8080 is direct
    And TCP from "cart" to itself port 8080 is direct
    And UDP from "cart" to itself port 8080 is direct

  @ipv6 @mutant:loopback-captured
  Scenario: The app does so over IPv6
    Given its addresses are IPv6
    Then TCP from "cart" to its loopback address port 8080 over IPv6 is direct
    And TCP from "cart" to itself port 8080 over IPv6 is direct

  @mutant:no-self-call
  Scenario: The proxy that reaches its own pod comes in like anybody else
    Then TCP from "cart" to itself port 8080 as its proxy passes 15006

  @ipv6 @mutant:no-self-call
  Scenario: The proxy does so over IPv6
    Given its addresses are IPv6
    Then TCP from "cart" to itself port 8080 over IPv6 as its proxy passes 15006

  @mutant:self-call-on-loopback
  Scenario: The proxy reaches the app by the loopback address directly
    Then TCP from "cart" to its loopback address port 8080 as its proxy is direct

  Scenario Outline: What counts as loopback can be chosen for a node: <range>
    Given the plugin's environment has ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR = "<range>"
    Then TCP from "cart" to its address 127.0.0.9 port 8080 as its proxy <ending>
    And TCP from "cart" to itself port 8080 as its proxy passes 15006

    @mutant:no-self-call
    Examples:
      | range        | ending       |
      | 127.0.0.1/32 | passes 15006 |

    @mutant:loopback-range-ignored
    Examples:
      | range        | ending       |
      | 127.0.0.0/8  | is direct    |
