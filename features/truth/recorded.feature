@real-kernel @ipv6 @any-uid @istio-iptables @busy
Feature: Packets have the fates that they have with the rules of upstream
  The evaluator, the generator and the comparison of rules are ours: where they are wrong in the same way, they agree. The fates of these packets were
  recorded in a kernel with rules that upstream's istio-iptables wrote, of both families, with REDIRECT and with TPROXY. This judge has nothing of ours.

  @mutant:ports-swapped @mutant:no-outbound-capture @mutant:no-inbound-capture
  Scenario: By the back end that the product chooses
    When the recorded packets are sent in each configuration that istio-iptables programs
    Then each packet has the fate that it had with the rules of upstream
    And at least 1500 packets over at least 120 configurations were judged

  @millrace @mutant:exclusion-ignored @mutant:loopback-captured
  Scenario: By rules of nftables alone
    When the recorded packets are sent in each configuration that istio-iptables programs as nft
    Then each packet has the fate that it had with the rules of upstream
    And at least 1500 packets over at least 120 configurations were judged
