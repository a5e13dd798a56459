@real-kernel @install-cni @long
Feature: What nobody tells of is told by what the API server refuses
  An agent that is told to stop while nothing tells it why asks until its grace period is nearly over. A refusal that lasts means that
  what it is run by is gone: its account, or its roles. One that passes means nothing, and neither does a token whose time is over.

  Background:
    Given the chart's value "terminationGracePeriodSeconds" is "6"
    And the node agent is ready
    And the node agent follows the node's pods
    And what is installed is remembered

  @mutant:account-gone-keeps
  Scenario: The account goes before the DaemonSet, whose watch tells nothing
    When the API server falls silent on a watch of daemonsets.apps
    And nobody uses the node agent's token for 10 s
    And the installation is deleted in reverse
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node
    And a pod of the mesh and one outside of it start on every node

  @mutant:account-gone-keeps
  Scenario: The account alone is deleted, and the pod evicted
    When the node agent's service account is deleted
    And nobody uses the node agent's token for 10 s
    And the node agent's pod is evicted
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:forbidden-keeps
  Scenario: Rights go before the DaemonSet, whose watch tells nothing
    When the API server falls silent on a watch of daemonsets.apps
    And the DaemonSet is deleted, its rights first
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:refused-once
  Scenario Outline: An API server that has just started answers <code> until its caches are filled
    When the API server answers <code> on a get of daemonsets.apps the first 4 times
    And the API server answers <code> on a get of namespaces the first 4 times
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s

    Examples:
      | code |
      | 403  |
      | 401  |

  @mutant:rotated-is-gone
  Scenario: Signing keys are rotated, and the pod is evicted before its kubelet has another token
    When the API server restarts with other signing keys
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s

  @mutant:refused-for-one-is-gone
  Scenario: A token that is refused for the DaemonSet and accepted for anything else has an account
    When the API server answers 401 on a watch of daemonsets.apps
    And the API server answers 401 on a get of daemonsets.apps
    And the node agent's pod is evicted
    Then what is installed was not touched

  @mutant:expired-is-gone @mutant:unauthorized-uninstalls
  Scenario: The token has expired, as its kubelet could not renew it
    When the node agent's token expires
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s

  @mutant:date-ignored
  Scenario: The token has expired by the clock of an API server that is 70 minutes ahead
    When the API server's clock is 70 minutes ahead
    And the node agent's token expires
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s

  @mutant:unbound-is-gone
  Scenario: The pod that the token is bound to is deleted by force, and no other agent comes
    When nobody uses the node agent's token for 10 s
    And the node agent's pod is deleted by force, and the next one does not start
    Then what is installed was not touched

  @mutant:binary-not-kept
  Scenario: What runs goes on behind its proxy when the account alone is deleted
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    When the node agent's service account is deleted
    And nobody uses the node agent's token for 10 s
    And the node agent's pod is evicted
    Then the conflist "10-lab.conflist" is as it was
    And the plugin's binary is on the node
    And exposure of pod "cart" was 0

  @mutant:unauthorized-uninstalls
  Scenario: What starts while the token has expired is redirected from its first packet
    When the node agent's token expires
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    Then exposure of pod "cart" was 0
