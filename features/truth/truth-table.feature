@real-kernel @ipv6 @any-uid @millrace @busy
Feature: What we say that rules do is what the kernel does
  Explanations, simulations and comparisons rest on an evaluator of rules. Here it is held against the kernel, over configurations and
  pods of all kinds: addresses, ports, users, groups, marks, zones and interfaces, packets of the app, of the proxy, of guests and of
  nobody. A binary of the product writes the rules; the packets are real, and so are the counters. The data is in scenarios/truth and
  scenarios/rules.

  @istio-iptables
  Scenario Outline: Rules that istio-iptables wrote, as <back end>
    When 60 packets are sent in each configuration that istio-iptables programs as <back end>
    Then each packet was got by whom the evaluator says, as what it says
    And each rule is in its place, and its counter moved when the evaluator says
    And every kind of rule was met by some packet, or is listed with the reason why none can
    And at least 9000 packets over at least 140 configurations were judged

    @mutant:ports-swapped @mutant:no-ipv6 @mutant:redirect-udp
    @mutant:exclusion-ignored @mutant:exclusion-too-wide @mutant:exclusion-after-inclusion @mutant:exclusion-beside-list
    @mutant:no-outbound-capture @mutant:no-inbound-capture @mutant:tunnel-captured @mutant:health-captured
    @mutant:proxy-captured @mutant:proxy-uid-captured @mutant:proxy-gid-captured
    @mutant:loopback-captured @mutant:no-self-call @mutant:self-call-on-loopback @mutant:self-call-too-late
    @mutant:owner-groups-ignored @mutant:guest-not-captured @mutant:invalid-not-dropped @mutant:connmark-lost
    @mutant:dns-not-captured @mutant:dns-loops @mutant:every-port-is-dns @mutant:zone-missing
    @mutant:no-policy-routes
    Examples:
      | back end   |
      | nft-compat |
      | nft        |

    @iptables-tools @mutant:proxy-gid-captured
    Examples:
      | back end        |
      | iptables-nft    |
      | iptables-legacy |

  Scenario Outline: Rules that the plugin wrote, as <back end>
    When 60 packets are sent in each pod that istio-cni programs as <back end>
    Then each packet was got by whom the evaluator says, as what it says
    And each rule is in its place, and its counter moved when the evaluator says
    And every kind of rule was met by some packet, or is listed with the reason why none can
    And at least 2500 packets over at least 45 pods were judged

    @mutant:proxy-gid-captured @mutant:annotation-ignored @mutant:zone-missing
    Examples:
      | back end   |
      | nft-compat |
      | nft        |

    @iptables-tools @mutant:proxy-gid-captured
    Examples:
      | back end        |
      | iptables-nft    |
      | iptables-legacy |
