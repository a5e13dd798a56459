@real-kernel @millrace
Feature: The agent's record of the back end spares each pod the search
  The agent looks once what the node's kernel can do and writes it into the run directory. The record is a hint: one that is
  missing, broken or no longer true costs a pod nothing but a moment.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:record-ignored
  Scenario: It is followed
    Given the node's record of the back end says "backend=nft, reason=no-nft-compat"
    Then the plugin took back end nft because "nft_compat"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its namespace holds one set of rules, that of nft

  @mutant:wish-ignored
  Scenario: What an operator asks for counts more
    Given the node's record of the back end says "backend=nft, reason=no-nft-compat"
    And the plugin's configuration has "millrace_backend" = "nft-compat"
    Then the plugin took back end nft-compat because "it was asked for"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @iptables-tools @mutant:legacy-ignored
  Scenario: Rules of others in the pod count more
    Given the node's record of the back end says "backend=nft-compat, reason=usual"
    And its network leaves rules of iptables-legacy
      """
      *nat
      -A OUTPUT -p tcp --dport 9901 -j RETURN
      COMMIT
      """
    Then the plugin took back end iptables-legacy because "rules of others"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the rules that its network left are the same, in the same order

  @fake-kernel @mutant:record-final
  Scenario Outline: One that is no longer true: it says <recorded>, and the kernel lacks <what>
    Given the node's record of the back end says "backend=<recorded>, reason=usual"
    And a node whose kernel lacks <what>
    Then the plugin took back end <taken> because "<why>"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | recorded   | what       | taken | why        |
      | nft-compat | nft-compat | nft   | nft_compat |

    @iptables-tools
    Examples:
      | recorded   | what       | taken           | why        |
      | nft        | nft-nat    | iptables-legacy | type nat   |

  @mutant:record-guessed
  Scenario Outline: One that says "<text>" is told and passed over
    Given the node's record of the back end says "<text>"
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And the plugin warns "the record of the back end says nothing"
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | text                          |
      |                               |
      | backend=ebpf, reason=usual    |
      | backend=nft                   |

  @fake-kernel @mutant:record-guessed
  Scenario: One that may not be read is told and passed over
    Given the node's record of the back end says "backend=nft, reason=no-nft-compat"
    And a node that forbids "run/istio-cni/backend"
    Then the plugin took back end nft-compat because "nf_tables and nft_compat"
    And the plugin warns "run/istio-cni/backend"
    And TCP from "cart" to "outside" port 8080 passes 15001
