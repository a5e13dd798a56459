@real-kernel @istio-iptables
Feature: An init container writes rules in the form that it is told to

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its own init container programs its rules

  @mutant:backend-ignored
  Scenario: nftables' own
    Given its mesh's metadata has MILLRACE_BACKEND = "nft"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And its init container "istio-init" has said "backend=nft "

  @mutant:no-outbound-capture @mutant:no-inbound-capture
  Scenario: What iptables lists, without its tools
    Given its mesh's metadata has MILLRACE_BACKEND = "nft-compat"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its init container "istio-init" has said "backend=nft-compat "

  @iptables-tools @mutant:backend-ignored
  Scenario Outline: Through <tool>
    Given its mesh's metadata has MILLRACE_BACKEND = "<tool>"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy is direct
    And its init container "istio-init" has said "backend=<tool> "

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |

  @iptables-tools @mutant:half-trusted
  Scenario Outline: A differing set is replaced through <tool>
    Given its mesh's metadata has MILLRACE_BACKEND = "<tool>"
    When its init container "istio-init" runs again with "--reconcile -o 8080"
    Then it ends with exit code 0 and says "rules replaced"
    And TCP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to "outside" port 443 passes 15001

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |

  @iptables-tools @millrace @mutant:native-tables-by-their-rules
  Scenario: Native rules are replaced through iptables-nft, which knows a group by its name
    Given its mesh's metadata has MILLRACE_BACKEND = "nft"
    When its init container "istio-init" runs again with "--backend=iptables-nft -g root"
    Then it ends with exit code 0 and says "rules replaced backend=iptables-nft "
    And its namespace holds one set of rules, that of iptables-nft
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 as group 0 is direct

  @iptables-tools @mutant:always-written
  Scenario Outline: The same again through <tool> changes nothing
    Given its mesh's metadata has MILLRACE_BACKEND = "<tool>"
    When "cart" sends TCP to "outside" port 8080
    And its init container "istio-init" runs again
    Then it ends with exit code 0 and says "rules were there already"
    And nothing in its namespace was written

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |

  @iptables-tools @mutant:dry-run-applies
  Scenario Outline: A dry run through <tool> writes nothing
    Given its mesh's metadata has MILLRACE_BACKEND = "<tool>"
    When "cart" sends TCP to "outside" port 8080
    And its init container "istio-init" runs again with "--dry-run -o 8080"
    Then it ends with exit code 0 and says "-A ISTIO_OUTPUT -p tcp --dport 8080 -j RETURN"
    And nothing in its namespace was written

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |

  @iptables-tools @mutant:force-ignored
  Scenario: The same again, by force
    Given its mesh's metadata has MILLRACE_BACKEND = "iptables-nft"
    When its init container "istio-init" runs again with "--force-apply"
    Then it ends with exit code 0 and says "rules replaced"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @iptables-tools
  Scenario Outline: Clean-up leaves nothing of what <tool> wrote
    Given its mesh's metadata has MILLRACE_BACKEND = "<tool>"
    When its init container "istio-init" runs again with "--cleanup-only"
    Then it ends with exit code 0 and says "rules removed"
    And its namespace holds no rule

    @mutant:clean-up-forgets
    Examples:
      | tool         |
      | iptables-nft |

    @mutant:clean-up-forgets-legacy
    Examples:
      | tool            |
      | iptables-legacy |
