@real-kernel @millrace
Feature: No pod waits for somebody else's lock of the tables
  The legacy tools take one lock for the whole node. Whoever holds it for long, holds up every pod that starts there
  (istio#47002, #58507). Rules that go through netlink need no lock, and legacy ones are written under a lock of the pod's own.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:no-outbound-capture
  Scenario Outline: <name> does not even look at it
    Given the plugin's configuration has "millrace_backend" = "<name>"
    And another process holds the node's lock of the tables
    Then it starts within 5 s
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | name       |
      | nft-compat |
      | nft        |

    @iptables-tools
    Examples:
      | name         |
      | iptables-nft |

  @iptables-tools @mutant:node-lock-taken
  Scenario: iptables-legacy takes a lock of the pod's own
    Given the plugin's configuration has "millrace_backend" = "iptables-legacy"
    And the plugin's configuration has "millrace_iptables_deadline_seconds" = 2
    And another process holds the node's lock of the tables
    Then it starts within 5 s
    And TCP from "cart" to "outside" port 8080 passes 15001

  @iptables-tools @mutant:lock-final @mutant:deadline-ignored
  Scenario: Where somebody holds that, too, the runtime is told to try again, and who it is
    Given the plugin's configuration has "millrace_iptables_deadline_seconds" = 2
    And another process holds the node's lock of the tables
    And another process holds its namespace's lock of the tables
    When the plugin's ADD is repeated with "millrace_backend" = "iptables-legacy"
    Then the plugin fails: code 11, "is held by process"
    And it took at most 6000 ms
    When that process lets it go
    And the plugin's ADD is repeated with "millrace_backend" = "iptables-legacy"
    Then the plugin succeeds
    And its namespace holds one set of rules, that of iptables-legacy
    And TCP from "cart" to "outside" port 8080 passes 15001
