@real-kernel @istio-iptables @millrace
Feature: What explain says of a packet is what becomes of it
  It asks no cluster and no kernel: the pod's object is all that it knows. So the object is taken from the API, the packet is
  explained, then sent, and both must end the same way.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:explain-forgets-owner
  Scenario Outline: <who>
    Then explain foretells that TCP from "cart" to <packet> <ending>

    Examples:
      | who                           | packet                                              | ending       |
      | The proxy                     | "outside" port 8080 as its proxy                    | is direct    |
      | A process of the proxy's user | "outside" port 8080 as its proxy's user             | is direct    |
      | One of its group              | "outside" port 8080 as its proxy's group            | is direct    |
      | The proxy, to its own pod     | itself port 8080 as its proxy                       | passes 15006 |

  @mutant:explain-forgets-annotations
  Scenario Outline: <packet>, with annotations
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    And its annotation "traffic.sidecar.istio.io/includeInboundPorts" is "80,9090"
    Then explain foretells that TCP from <packet> <ending>

    Examples:
      | packet                        | ending       |
      | "cart" to "outside" port 443  | is direct    |
      | "outside" to "cart" port 8080 | is direct    |

  @ipv6 @mutant:explain-forgets-addresses
  Scenario Outline: <packet>, with addresses of IPv6 alone
    Given its addresses are IPv6
    Then explain foretells that TCP from <packet> <ending>

    Examples:
      | packet                                            | ending       |
      | "cart" to "outside" port 8080 over IPv6           | passes 15001 |
      | "outside" to "cart" port 8080 over IPv6           | passes 15006 |

  @mutant:no-outbound-capture @mutant:no-inbound-capture
  Scenario: An ordinary pod's packets
    Then explain foretells that TCP from "cart" to "outside" port 8080 passes 15001
    And explain foretells that TCP from "outside" to "cart" port 8080 passes 15006
    And explain foretells that TCP from "outside" to "cart" port 15008 is direct
    And explain foretells that TCP from "cart" to itself port 8080 is direct
    And explain foretells that TCP from "cart" to its loopback address port 8080 is direct
    And explain foretells that UDP from "cart" to "outside" port 8080 is direct

  @mutant:no-inbound-capture
  Scenario: Inbound by TPROXY
    Given its inbound traffic is caught by TPROXY
    Then explain foretells that TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:dns-not-captured
  Scenario: DNS
    Given its proxy's environment has ISTIO_META_DNS_CAPTURE = "true"
    And its resolver is pod "outside"
    Then explain foretells that UDP from "cart" to "outside" port 53 passes 15053
    And explain foretells that TCP from "cart" to "outside" port 53 passes 15053
    And explain foretells that UDP from "cart" to "outside" port 53 as its proxy is direct

  @mutant:explain-forgets-names
  Scenario: A group of the node, by its name
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS = "root"
    Then explain foretells that TCP from "cart" to "outside" port 8080 as group 0 passes 15001
    And explain foretells that TCP from "cart" to "outside" port 8080 as group 2000 is direct
