@real-kernel @ipv6 @any-uid
Feature: Whoever wrote the rules, the kernel does what we say
  The same as the truth table, over many more configurations and over every back end: addresses, ports, users, groups, marks,
  zones and interfaces of all kinds, packets of the app, of the proxy, of guests and of nobody. The production library programs
  most of them in this process, which saves a process per pod; those by hand are programmed by a production binary as well,
  with and without defects. The data is in scenarios/truth/scale and scenarios/rules.

  Scenario Outline: Rules that <back end> wrote
    When 60 packets are sent in each configuration, programmed through <back end>
    Then at least 9000 packets over at least 150 configurations were judged
    And each packet was got by whom the evaluator says, as what it says
    And each rule is in its place, and its counter moved when the evaluator says
    And every kind of rule was met by some packet, or is listed with the reason why none can

    Examples:
      | back end   |
      | nft-compat |
      | nft        |

    @iptables-tools
    Examples:
      | back end        |
      | iptables-nft    |
      | iptables-legacy |

  @istio-iptables @mutant:ports-swapped @mutant:no-ipv6 @mutant:redirect-udp
  @mutant:exclusion-ignored @mutant:exclusion-too-wide @mutant:exclusion-after-inclusion @mutant:exclusion-beside-list
  @mutant:no-outbound-capture @mutant:no-inbound-capture @mutant:tunnel-captured @mutant:health-captured
  @mutant:proxy-captured @mutant:proxy-uid-captured @mutant:proxy-gid-captured
  @mutant:loopback-captured @mutant:no-self-call @mutant:self-call-on-loopback @mutant:self-call-too-late
  @mutant:owner-groups-ignored @mutant:guest-not-captured @mutant:invalid-not-dropped @mutant:connmark-lost
  @mutant:dns-not-captured @mutant:dns-loops @mutant:every-port-is-dns @mutant:zone-missing
  @mutant:no-policy-routes
  Scenario Outline: Rules that a production binary wrote, as <back end>
    When 60 packets are sent in each configuration by hand that istio-iptables programs through <back end>
    Then each packet was got by whom the evaluator says, as what it says
    And each rule is in its place, and its counter moved when the evaluator says
    And at least 2000 packets over at least 30 configurations were judged

    Examples:
      | back end   |
      | nft-compat |
      | nft        |
