@real-kernel @istio-iptables @iptables-tools
Feature: DNS rules that an older release left in a pod go with its other rules
  Upstream 1.20 to 1.24 appended rules about DNS to the built-in chains. Left alone they send the pod's questions to port 15053,
  where nobody answers any more.

  Background:
    Given pod "resolver" outside the mesh
    And pod "cart" of the mesh
    And its own init container programs its rules

  @mutant:former-dns-foreign
  Scenario Outline: An init container of today replaces the rules that <tool> wrote
    Given <tool> writes rules into its namespace
      """
      *nat
      :ISTIO_OUTPUT - [0:0]
      :ISTIO_REDIRECT - [0:0]
      -A OUTPUT -p tcp -j ISTIO_OUTPUT
      -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001
      -A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN
      -A ISTIO_OUTPUT -m owner --gid-owner 1337 -j RETURN
      -A ISTIO_OUTPUT -p tcp --dport 53 -j REDIRECT --to-ports 15053
      -A ISTIO_OUTPUT -j ISTIO_REDIRECT
      -A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j RETURN
      -A OUTPUT -p udp --dport 53 -m owner --gid-owner 1337 -j RETURN
      -A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports 15053
      COMMIT
      *raw
      -A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1
      -A OUTPUT -p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 2
      -A OUTPUT -p udp --dport 53 -m owner --gid-owner 1337 -j CT --zone 1
      -A OUTPUT -p udp --sport 15053 -m owner --gid-owner 1337 -j CT --zone 2
      -A OUTPUT -p udp --dport 53 -j CT --zone 2
      -A PREROUTING -p udp --sport 53 -j CT --zone 1
      COMMIT
      """
    When its init container "istio-init" runs again
    Then it ends with exit code 0 and says "rules "
    And UDP from "cart" to "resolver" port 53 is direct
    And TCP from "cart" to "resolver" port 8080 passes 15001

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |

  @mutant:former-dns-foreign
  Scenario Outline: A clean-up leaves nothing of the rules that <tool> wrote
    Given <tool> writes rules into its namespace
      """
      *nat
      :ISTIO_OUTPUT - [0:0]
      -A OUTPUT -p tcp -j ISTIO_OUTPUT
      -A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN
      -A ISTIO_OUTPUT -m owner ! --gid-owner 2001 -m owner ! --gid-owner 2002 -j RETURN
      -A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j RETURN
      -A OUTPUT -p udp --dport 53 -m owner ! --gid-owner 2001 -m owner ! --gid-owner 2002 -j RETURN
      -A OUTPUT -p udp --dport 53 -d 10.96.0.10/32 -j REDIRECT --to-ports 15053
      COMMIT
      *raw
      -A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1
      -A OUTPUT -p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 2
      -A OUTPUT -p udp --dport 53 -d 10.96.0.10/32 -j CT --zone 2
      -A PREROUTING -p udp --sport 53 -s 10.96.0.10/32 -j CT --zone 1
      COMMIT
      """
    When its init container "istio-init" runs again with "--cleanup-only"
    Then it ends with exit code 0 and says "rules removed"
    And its namespace holds no rule

    Examples:
      | tool            |
      | iptables-nft    |
      | iptables-legacy |
