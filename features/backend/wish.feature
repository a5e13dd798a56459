@real-kernel @millrace
Feature: An operator can ask for a back end, and gets that one or an error
  By name in the configuration, or by the settings that upstream knows. What is asked for is never replaced by something else:
  whoever asks has a reason.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:wish-ignored
  Scenario Outline: millrace_backend "<name>"
    Given the plugin's configuration has "millrace_backend" = "<name>"
    Then the plugin took back end <name> because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its namespace holds one set of rules, that of <name>

    Examples:
      | name       |
      | nft-compat |
      | nft        |

    @iptables-tools
    Examples:
      | name         |
      | iptables-nft |

    @iptables-tools
    Examples:
      | name            |
      | iptables-legacy |

  @mutant:wish-ignored
  Scenario: native_nftables, as upstream has it
    Given the plugin's configuration has "native_nftables" = true
    Then the plugin took back end nft because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:wish-ignored
  Scenario: FORCE_IPTABLES_BINARY "nft" needs no tool
    Given the plugin's environment has FORCE_IPTABLES_BINARY = "nft"
    Then the plugin took back end nft-compat because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @iptables-tools @mutant:wish-ignored
  Scenario: FORCE_IPTABLES_BINARY "legacy"
    Given the plugin's environment has FORCE_IPTABLES_BINARY = "legacy"
    Then the plugin took back end iptables-legacy because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:wish-ignored
  Scenario: A name counts before upstream's settings
    Given the plugin's configuration has "millrace_backend" = "nft-compat"
    And the plugin's configuration has "native_nftables" = true
    Then the plugin took back end nft-compat because "it was asked for"

  @mutant:wish-guessed
  Scenario Outline: A <kind> that nobody knows is told and passed over
    Given the plugin's <where>
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And the plugin warns "<text>"
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | kind     | where                                                | text                                    |
      | name     | configuration has "millrace_backend" = "ebpf"        | is not a back end                       |
      | variable | environment has FORCE_IPTABLES_BINARY = "nf_tables"  | invalid FORCE_IPTABLES_BINARY value     |

  @fake-kernel @mutant:wish-softened
  Scenario Outline: Without <what> nobody gets <name>, and the error says why
    Given a node whose kernel lacks <what>
    And the plugin's configuration has "millrace_backend" = "<name>"
    Then it does not start: code 999, "<why>"

    Examples:
      | name       | what       | why                                          |
      | nft-compat | nft-compat | this kernel has no nft_compat (CONFIG_NFT_COMPAT) |

    @iptables-tools
    Examples:
      | name       | what       | why                                          |
      | nft-compat | nf-tables  | this kernel has no nf_tables                 |
      | nft        | nf-tables  | this kernel has no nf_tables                 |
      | nft        | nft-nat    | no chains of type nat in family inet         |
      | nft        | ipv6       | no tables of family inet                     |

  @fake-kernel @mutant:success-without-rules
  Scenario Outline: Without the tools nobody gets <name>, and the error says what to do
    Given a node without the iptables tools
    And the plugin's configuration has "millrace_backend" = "<name>"
    Then it does not start: code 999, "install iptables with that variant, or use a back end that needs no tool"

    Examples:
      | name            |
      | iptables-nft    |
      | iptables-legacy |
