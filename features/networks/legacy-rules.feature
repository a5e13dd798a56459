@real-kernel @install-cni @iptables-tools @long
Feature: A pod whose network left rules of iptables-legacy is repaired (field S14)
  The plugin would put its rules beside them with the node's iptables-legacy. The agent's image has none, so its rules are of nft-compat,
  a packet proves that they redirect, and the others' rules stay.

  Scenario Outline: Rules in <table>
    Given a node without the plugin
    And its network leaves rules of iptables-legacy
      """
      *<table>
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      -A OUTPUT -p tcp --dport 9902 -j ACCEPT
      COMMIT
      """
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And an init container checks its rules
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    And it comes up within 60 s
    And its namespace holds one set of rules, that of nft-compat
    And the rules that its network left are the same, in the same order
    And TCP from "cart" to "outside" port 8080 passes 15001

    @mutant:no-outbound-capture
    Examples:
      | table  |
      | nat    |
      | filter |
      | mangle |
