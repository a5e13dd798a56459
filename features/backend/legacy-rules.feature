@real-kernel @iptables-tools @millrace
Feature: Rules of others in tables of legacy iptables decide, and stay
  A primary network that still writes legacy rules works beside nf_tables, but not beside its nat chains: the kernel would run
  both. So rules go where others already are. Tables or chains without a rule are nobody's: every look with iptables-legacy
  leaves such tables behind.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:legacy-ignored
  Scenario Outline: Rules in <table>: ours go beside them (istio#57827)
    Given its network leaves rules of iptables-legacy
      """
      *<table>
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      -A OUTPUT -p tcp --dport 9902 -j ACCEPT
      COMMIT
      """
    Then the plugin took back end iptables-legacy because "rules of others in tables of legacy iptables"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its namespace holds one set of rules, that of iptables-legacy
    And the rules that its network left are the same, in the same order

    @mutant:others-flushed
    Examples:
      | table |
      | nat   |

    Examples:
      | table  |
      | filter |
      | mangle |

  @mutant:chains-are-rules
  Scenario Outline: <what> without a rule is nobody's (istio#56983)
    Given its network leaves rules of iptables-legacy
      """
      *nat
      <line>
      COMMIT
      """
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its namespace holds one set of rules, that of nft-compat

    Examples:
      | what              | line                |
      | A table           | :OUTPUT ACCEPT [0:0] |
      | A chain of others | :KUBE-MARK - [0:0]   |

  @mutant:wish-ignored
  Scenario: Who asks for a back end gets it, whatever others have
    Given its network leaves rules of iptables-legacy
      """
      *filter
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      COMMIT
      """
    And the plugin's configuration has "millrace_backend" = "nft-compat"
    Then the plugin took back end nft-compat because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the rules that its network left are the same, in the same order

  @fake-kernel @mutant:legacy-ignored
  Scenario: Nothing here can write legacy tables
    Given a node without the iptables tools
    And its network leaves rules of iptables-legacy
      """
      *filter
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      COMMIT
      """
    Then the plugin took back end nft-compat because "but nothing here can write those"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And the rules that its network left are the same, in the same order

  @fake-kernel @mutant:legacy-final
  Scenario Outline: Rules in <table>, and a kernel without the legacy table nat (istio#57380)
    Given a node whose kernel lacks legacy-nat
    And its network leaves rules of iptables-legacy
      """
      *<table>
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      COMMIT
      """
    Then the plugin took back end nft-compat because "but nothing here can write those"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And the rules that its network left are the same, in the same order

    Examples:
      | table  |
      | filter |
      | mangle |
