@real-kernel @ipv6 @any-uid
Feature: Whoever wrote the rules, the kernel does what we say
  The same as the truth table, over many more configurations and over every back end: addresses, ports, users, groups, marks,
  zones and interfaces of all kinds, packets of the app, of the proxy, of guests and of nobody. The production library programs
  them in this process, because one process per pod would take minutes; what the binaries do with a pod is the truth table's.
  The data is in scenarios/truth/scale and scenarios/rules.

  Scenario Outline: Rules that <back end> wrote
    When 60 packets are sent in each configuration, programmed through <back end>
    Then at least 9000 packets over at least 150 configurations were judged
    And evaluator and kernel agree on who got each packet, as what, and on every rule's counter
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
