@real-kernel @millrace
Feature: A pod ends with one set of rules, whatever was there
  Back ends do not see each other's rules, but the kernel runs them all. When the right back end of a pod changes, what the
  other one wrote goes.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:two-sets
  Scenario Outline: From <first> to <second>
    Given the plugin's configuration has "millrace_backend" = "<first>"
    When the plugin's ADD is repeated with "millrace_backend" = "<second>"
    Then the plugin succeeds
    And its namespace holds one set of rules, that of <second>
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy is direct

    Examples:
      | first      | second     |
      | nft-compat | nft        |
      | nft        | nft-compat |

    @iptables-tools
    Examples:
      | first           | second          |
      | nft-compat      | iptables-legacy |
      | nft             | iptables-legacy |
      | iptables-legacy | nft-compat      |
      | iptables-legacy | nft             |

    @iptables-tools
    Examples:
      | first        | second       |
      | nft          | iptables-nft |
      | iptables-nft | nft          |

  @iptables-tools @mutant:two-sets
  Scenario: What upstream left in legacy tables is ours, too
    Given its network leaves rules of iptables-legacy
      """
      *nat
      :ISTIO_OUTPUT - [0:0]
      :ISTIO_REDIRECT - [0:0]
      -A OUTPUT -p tcp -j ISTIO_OUTPUT
      -A ISTIO_OUTPUT -j ISTIO_REDIRECT
      -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001
      COMMIT
      """
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And its namespace holds one set of rules, that of nft-compat
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 as its proxy is direct
