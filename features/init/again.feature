@real-kernel @istio-iptables
Feature: The program of an init container can be called again, and for other ends
  Containers are restarted, meshes change their settings, people want to know before they do. Whatever was there before, the
  namespace ends with what is asked for, and nothing else is touched.

  Background:
    Given pod "outside" outside the mesh
    And its addresses are IPv4 and IPv6
    And pod "cart" of the mesh
    And its own init container programs its rules

  @mutant:second-add-fails @mutant:always-written
  Scenario: The same again changes nothing
    When its init container "istio-init" runs again
    Then it ends with exit code 0 and says "rules were there already"
    And nothing in its namespace was written
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:second-add-fails @mutant:policy-rule-doubled
  Scenario: Its containers start again, with TPROXY
    Given its inbound traffic is caught by TPROXY
    And it runs
    When its containers start again
    Then it runs
    And its packets with mark 1337 are looked up in table 133 once, where every address is local
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:half-trusted
  Scenario Outline: A differing set is replaced, with <arguments>
    When its init container "istio-init" runs again with "<arguments>"
    Then it ends with exit code 0 and says "rules replaced"
    And TCP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to "outside" port 443 passes 15001

    Examples:
      | arguments             |
      | -o 8080               |
      | -o 8080 --reconcile   |
      | -o 8080 --force-apply |

  @mutant:backend-ignored
  Scenario: A set in another form is replaced
    When its init container "istio-init" runs again with "--native-nftables -o 8080"
    Then it ends with exit code 0 and says "rules replaced backend=nft "
    And TCP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to "outside" port 443 passes 15001

  @ipv6 @mutant:family-is-everything
  Scenario Outline: Native rules for everything of <family> are replaced by those for everything
    Given its addresses are IPv4 and IPv6
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    When its init container "istio-init" runs again with "--native-nftables -i *"
    And its init container "istio-init" runs again with "--native-nftables -i <range>"
    Then it ends with exit code 0 and says "rules replaced backend=nft "
    When its init container "istio-init" runs again with "--native-nftables -i *"
    Then it ends with exit code 0 and says "rules replaced backend=nft "
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 over IPv6 passes 15001

    Examples:
      | family | range     |
      | IPv4   | 0.0.0.0/0 |
      | IPv6   | ::/0      |

  @mutant:clean-up-forgets
  Scenario Outline: Clean-up leaves nothing of <form>
    Given its mesh's metadata has MILLRACE_BACKEND = "<form>"
    And it runs
    When its init container "istio-init" runs again with "--cleanup-only"
    Then it ends with exit code 0 and says "rules removed"
    And its namespace holds no rule
    And TCP from "cart" to "outside" port 8080 is direct
    When its init container "istio-init" runs again with "--cleanup-only"
    Then it ends with exit code 0 and says "there were no rules to remove"

    Examples:
      | form       |
      | nft-compat |
      | nft        |

  @mutant:clean-up-leaves-routes
  Scenario: Clean-up leaves no policy routes
    Given its inbound traffic is caught by TPROXY
    When its init container "istio-init" runs again with "--cleanup-only"
    Then it ends with exit code 0 and says "rules removed"
    And its packets with mark 1337 are not looked up in table 133

  @ipv6 @mutant:clean-up-of-one-family @mutant:clean-up-leaves-helper
  Scenario: Clean-up without --dual-stack leaves nothing of either family
    Given its addresses are IPv4 and IPv6
    And its mesh's metadata has ISTIO_DUAL_STACK = "true"
    And its inbound traffic is caught by TPROXY
    Then it has the address ::6
    And its packets with mark 1337 are looked up in table 133 once over IPv6, where every address is local
    When its init container "istio-init" runs again with "--cleanup-only --dual-stack=false"
    Then it ends with exit code 0 and says "rules removed"
    And its packets with mark 1337 are not looked up in table 133
    And it does not have the address ::6
    And its namespace holds no rule

  @mutant:dry-run-applies @mutant:dry-run-silent
  Scenario Outline: A dry run says what it would write, and writes nothing: <arguments>
    When its init container "istio-init" runs again with "<arguments>"
    Then it ends with exit code 0 and says "<text>"
    And nothing in its namespace was written
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | arguments                           | text                                                      |
      | --dry-run -o 8080                   | -A ISTIO_OUTPUT -p tcp --dport 8080 -j RETURN             |
      | --dry-run -o 8080 --native-nftables | add rule inet istio-proxy-nat istio-output tcp dport 8080 |
