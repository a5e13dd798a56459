@real-kernel
Feature: TPROXY keeps the client's address
  With NAT an app sees its own proxy as every client. With TPROXY inbound packets are handed to the proxy as they are, and
  the proxy speaks to the app with the client's address: access lists, rate limits and logs of the app stay true.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its inbound traffic is caught by TPROXY

  @mutant:no-inbound-capture @mutant:no-policy-routes @mutant:connmark-lost
  Scenario: Inbound, the app sees who it is
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 80 passes 15006

  @ipv6 @mutant:no-ipv6 @mutant:no-policy-routes @mutant:connmark-lost @mutant:lo-left-down
  Scenario: Inbound over IPv6
    Given its addresses are IPv6
    Then TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @ipv6 @every-back-end @mutant:no-ipv6 @mutant:no-policy-routes
  Scenario: Inbound in both families of a dual-stack pod
    Given its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006

  @ipv6 @every-back-end @mutant:every-address-counts
  Scenario: Inbound of a pod whose first address is IPv4: nothing over IPv6
    Given its addresses are IPv4 and IPv6
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 is direct

  @mutant:no-outbound-capture
  Scenario: Outbound traffic is caught as ever, by NAT
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And UDP from "cart" to "outside" port 8080 is direct
    And UDP from "outside" to "cart" port 8080 is direct

  @mutant:proxy-gid-captured
  Scenario: The proxy, which is root here, is known by its group
    Then TCP from "cart" to "outside" port 8080 as its proxy is direct
    And TCP from "cart" to "outside" port 8080 as root passes 15001

  @mutant:loopback-captured
  Scenario: An app reaches itself directly
    Then TCP from "cart" to itself port 8080 is direct
    And TCP from "cart" to its loopback address port 8080 is direct

  @mutant:no-self-call
  Scenario: The proxy that reaches its own pod comes in like anybody else
    Then TCP from "cart" to itself port 8080 as its proxy passes 15006

  @mutant:no-inbound-capture
  Scenario: From one pod of the mesh to another the address is that of the first pod
    Given pod "orders" of the mesh
    Then TCP from "orders" to "cart" port 8080 passes 15001 and 15006

  Scenario Outline: excludeInboundPorts "<ports>": port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "<ports>"
    Then TCP from "outside" to "cart" port <port> <ending>
    And its rules are complete

    @mutant:annotation-ignored
    Examples:
      | ports | port  | ending        |
      | 8080  | 8080  | is direct     |

    @mutant:exclusion-too-wide
    Examples:
      | ports | port  | ending        |
      | 80    | 8080  | passes 15006  |

    @mutant:health-captured
    Examples:
      | ports | port  | ending        |
      | 80    | 15021 | ends at 15021 |

  Scenario Outline: includeInboundPorts "<ports>": port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/includeInboundPorts" is "<ports>"
    Then TCP from "outside" to "cart" port <port> <ending>
    And TCP from "cart" to "outside" port 8080 passes 15001

    @mutant:list-lost
    Examples:
      | ports | port | ending       |
      | 8080  | 8080 | passes 15006 |

    @mutant:annotation-ignored
    Examples:
      | ports | port | ending       |
      | 80    | 8080 | is direct    |
      |       | 8080 | is direct    |

  @mutant:annotation-ignored
  Scenario: An excluded interface is left alone
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "eth0"
    Then TCP from "outside" to "cart" port 8080 is direct
    And TCP from "cart" to "outside" port 8080 is direct
