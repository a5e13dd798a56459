@real-kernel @ipv6
Feature: What we say that rules do is what the kernel does
  Explanations, simulations and comparisons rest on an evaluator of rules. Here it is held against the kernel: the same
  packets, real pods, real counters. The data is in scenarios/truth.

  @mutant:proxy-gid-captured
  Scenario: Evaluator and kernel agree on every packet
    When every packet of the truth table is judged by the evaluator and by the kernel
    Then there are at least 300 packets over at least 25 pods
    And the two agree on who answers each packet and on every rule's counter
    And every rule was met by some packet, or is listed with the reason why none can
    And no outcome is rare
