@real-kernel
Feature: A virtual machine in a pod goes through the pod's proxy
  Its packets do not begin in the pod: they enter it by an interface, as if they came from outside. Named in an annotation,
  that interface is the guest's way out.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "vm" of the mesh
    And it has a guest behind the interface "k6t-eth0"

  @mutant:guest-not-captured
  Scenario Outline: What the guest sends is outbound traffic: <annotation>
    Given its annotation "<annotation>" is "k6t-eth0"
    Then TCP from the guest of "vm" to "outside" port 8080 passes 15001
    And TCP from the guest of "vm" to "outside" port 443 passes 15001
    And TCP from "vm" to "outside" port 8080 passes 15001
    And TCP from "outside" to "vm" port 8080 passes 15006

    Examples:
      | annotation                                  |
      | istio.io/reroute-virtual-interfaces         |
      | traffic.sidecar.istio.io/kubevirtInterfaces |

  @ipv6 @mutant:guest-not-captured
  Scenario: The same over IPv6
    Given its addresses are IPv6
    And its annotation "istio.io/reroute-virtual-interfaces" is "k6t-eth0"
    Then TCP from the guest of "vm" to "outside" port 8080 over IPv6 passes 15001

  @mutant:guest-not-captured
  Scenario: Every interface that is named counts
    Given its annotation "istio.io/reroute-virtual-interfaces" is "net7,k6t-eth0,net8"
    Then TCP from the guest of "vm" to "outside" port 8080 passes 15001

  @mutant:guest-not-captured
  Scenario: Only the included ranges are caught, and the guest's packets are never inbound
    Given its annotation "istio.io/reroute-virtual-interfaces" is "k6t-eth0"
    And its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is "{outside/16}"
    Then TCP from the guest of "vm" to "outside" port 8080 passes 15001

  @mutant:lone-return-stays
  Scenario: One that is named no longer, where no range was redirected
    Given its annotation "istio.io/reroute-virtual-interfaces" is "k6t-eth0"
    And its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is ""
    Then TCP from "vm" to "outside" port 8080 is direct
    When its annotation "istio.io/reroute-virtual-interfaces" becomes ""
    And the plugin's ADD is repeated
    Then TCP from the guest of "vm" to "outside" port 8080 ends at 15006

  @mutant:no-inbound-capture
  Scenario: An interface that nobody names is one like any other: its traffic is inbound
    Then TCP from the guest of "vm" to "outside" port 8080 ends at 15006
