@real-kernel @own-users
Feature: A pod with users of its own
  With hostUsers: false the pod's network namespace belongs to another user namespace, and user 1337 of the pod is another one
  on the node. Rules mean the pod's users, and no nsenter is needed for it (istio#58750).

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it has users of its own

  @millrace @mutant:owner-not-entered
  Scenario Outline: <back end>: the app is redirected, the proxy is not
    Given the plugin's configuration has "millrace_backend" = "<back end>"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct

    Examples:
      | back end   |
      | nft-compat |

    @iptables-tools
    Examples:
      | back end     |
      | iptables-nft |

    @iptables-tools
    Examples:
      | back end        |
      | iptables-legacy |

  @millrace @mutant:no-outbound-capture
  Scenario: nft needs no other user namespace
    Given the plugin's configuration has "millrace_backend" = "nft"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 as its proxy's user is direct

  @mutant:remedy-untold
  Scenario: A proxy user that the pod does not have
    Given its proxy runs as user 70000 and group 70000
    Then it does not start: code 999, "its user or group is not mapped"
    And it does not start: code 999, "choose a runAsUser and runAsGroup below 65536"
