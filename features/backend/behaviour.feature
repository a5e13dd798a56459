@real-kernel @millrace
Feature: Every back end redirects alike
  A node's kernel takes rules in the form that iptables lists, or in nftables' own. What happens to traffic is the same, whether a back
  end was chosen or is what a node fell back to.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh

  @mutant:no-outbound-capture @mutant:no-inbound-capture @mutant:proxy-captured
  Scenario Outline: <back end>: both directions are caught, the proxy and UDP are not
    Given a node whose back end is <back end>
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And UDP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to itself port 8080 is direct
    And TCP from "cart" to itself port 8080 as its proxy passes 15006
    And TCP from "outside" to "cart" port 15008 is direct
    And TCP from "outside" to "cart" port 15021 ends at 15021

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @ipv6 @mutant:no-ipv6 @mutant:no-ipv6-helper
  Scenario Outline: <back end>: IPv6 alone
    Given a node whose back end is <back end>
    And its addresses are IPv6
    Then TCP from "cart" to "outside" port 8080 over IPv6 passes 15001
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006
    And TCP from "cart" to itself port 8080 over IPv6 as its proxy passes 15006

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @ipv6 @mutant:no-policy-routes @mutant:connmark-lost
  Scenario Outline: <back end>: TPROXY keeps the client's address in both families
    Given a node whose back end is <back end>
    And its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    And its inbound traffic is caught by TPROXY
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 as its proxy is direct
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @mutant:dns-not-captured @mutant:zone-missing
  Scenario Outline: <back end>: DNS goes through the agent, whose own does not
    Given a node whose back end is <back end>
    And its proxy's environment has ISTIO_META_DNS_CAPTURE = "true"
    And its resolver is pod "outside"
    Then UDP from "cart" to "outside" port 53 from port 4053 passes 15053
    And UDP from "cart" to "outside" port 53 as its proxy from port 4053 is direct
    And TCP from "cart" to "outside" port 53 passes 15053
    And TCP from "cart" to "outside" port 53 as its proxy is direct

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @mutant:guest-not-captured
  Scenario Outline: <back end>: a guest goes through the pod's proxy
    Given a node whose back end is <back end>
    And it has a guest behind the interface "k6t-eth0"
    And its annotation "istio.io/reroute-virtual-interfaces" is "k6t-eth0"
    Then TCP from the guest of "cart" to "outside" port 8080 passes 15001

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @mutant:invalid-not-dropped
  Scenario Outline: <back end>: packets of no connection are dropped
    Given a node whose back end is <back end>
    And its proxy's environment has INVALID_DROP = "true"
    Then a stray FIN from "outside" to "cart" port 8080 vanishes
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @mutant:owner-groups-ignored @mutant:annotation-ignored
  Scenario Outline: <back end>: what is left alone
    Given a node whose back end is <back end>
    And the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE = "2000"
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    And its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "80"
    Then TCP from "cart" to "outside" port 8080 as group 2000 is direct
    And TCP from "cart" to "outside" port 443 is direct
    And TCP from "outside" to "cart" port 80 is direct
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @mutant:second-add-fails
  Scenario Outline: <back end>: a second ADD succeeds and changes nothing that a pod could notice
    Given a node whose back end is <back end>
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

  @ipv6
  Scenario Outline: <back end>: IPv6 of a pod whose first address is IPv4 is left alone
    The first address decides which family is redirected. iptables has tables for each; a table of nftables sees both, and upstream's
    catches the second one as well, for which nobody listens.

    Given a node whose back end is <back end>
    And its addresses are IPv4 and IPv6
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 is direct
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 is direct

    @mutant:other-family-caught
    Examples:
      | back end |
      | nft      |

    @mutant:no-outbound-capture
    Examples:
      | back end   |
      | nft-compat |

    @iptables-tools @mutant:no-outbound-capture
    Examples:
      | back end        |
      | iptables-nft    |
      | iptables-legacy |

  @ipv6 @fake-kernel
  Scenario Outline: Fallen back to <back end>: what a pod's rules mean stays the same
    Given a node whose kernel lacks <what>
    And its addresses are IPv4 and IPv6
    Then the plugin took back end <back end> because "<why>"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 is direct
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "outside" to "cart" port 8080 over IPv6 is direct

    @mutant:other-family-caught
    Examples:
      | back end | what       | why             |
      | nft      | nft-compat | cannot run what |

    @iptables-tools @mutant:no-fallback
    Examples:
      | back end        | what      | why          |
      | iptables-legacy | nf-tables | no nf_tables |
