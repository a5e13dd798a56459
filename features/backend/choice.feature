@real-kernel @fake-kernel @millrace
Feature: The node's kernel decides how rules get into it
  Nobody has to say which of iptables' variants a node has. What the kernel can do is found by doing it, the log says what was
  taken and why, and a pod's traffic is redirected in any case.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:no-outbound-capture @mutant:reason-untold
  Scenario Outline: <node>
    Given a node whose kernel lacks <what>
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its rules are complete
    And its namespace holds one set of rules, that of nft-compat

    Examples:
      | node                                                                         | what       |
      | A kernel with everything                                                     | nothing    |
      | Without ip_tables: nf_tables only (istio#58185, kops#18179)                   | ip-tables  |
      | Legacy iptables without its nat table, others there (istio#57380)             | legacy-nat |
      | Without IPv6, a pod has rules for IPv4 (istio#46625)                          | ipv6       |
      | Without IPv6 and without ip_tables                                            | ipv6, ip-tables |

  @mutant:no-fallback @mutant:reason-untold
  Scenario Outline: Without <what> rules go into native tables
    Given a node whose kernel lacks <what>
    Then the plugin took back end nft because "cannot run what iptables rules need (nft_compat"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its namespace holds one set of rules, that of nft

    Examples:
      | what                  |
      | nft-compat            |
      | nft-compat, ip-tables |

  @iptables-tools @mutant:no-fallback
  Scenario Outline: Without <what> the tools of legacy iptables write them
    Given a node whose kernel lacks <what>
    Then the plugin took back end iptables-legacy because "<why>"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy is direct
    And its namespace holds one set of rules, that of iptables-legacy

    Examples:
      | what             | why                |
      | nf-tables        | no nf_tables       |
      | nfnetlink        | no nf_tables       |
      | nft-nat          | chains of type nat |
      | nft-compat, ipv6 | cannot run what    |

  @mutant:no-fallback
  Scenario Outline: <node>, and no tools: it says what is missing and what to do
    Given a node whose kernel lacks <what>
    And a node without the iptables tools
    Then it does not start: code 999, "<missing>; nor, through back end iptables-legacy, to run iptables-legacy-restore: it is not in PATH"
    And it does not start: code 999, "install iptables with its variant legacy"

    Examples:
      | node                  | what      | missing                                             |
      | No nf_tables          | nf-tables | this kernel has no nf_tables                        |
      | nf_tables without nat | nft-nat   | this kernel has no chains of type nat in family ip  |

  @iptables-tools @mutant:no-fallback
  Scenario Outline: Neither nf_tables nor <what>: it does not start
    Given a node whose kernel lacks nf-tables, <lack>
    Then it does not start: code 999, "this kernel has no nf_tables; nor, through back end iptables-legacy, to run iptables-legacy-restore"

    Examples:
      | what                | lack       |
      | ip_tables           | ip-tables  |
      | a legacy nat table  | legacy-nat |

  @mutant:no-outbound-capture
  Scenario: IPv6 is switched off in the pod
    Given its network switches IPv6 off
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
