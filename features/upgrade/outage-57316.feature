@real-kernel @install-cni @long
Feature: An API server that does not answer is no uninstall (istio-57316)
  An agent that ends asks whether its DaemonSet is still there. Who gets no answer knows nothing, and takes nothing away: an outage in the
  middle of a roll would otherwise leave a node whose pods start without rules.

  Background:
    Given the node agent is ready
    And what is installed is remembered
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured

  Scenario Outline: The API server <fault> while the agent's pod is evicted
    When the API server <fault> on a get of daemonsets.apps
    And the node agent's pod is evicted
    Then what is installed was not touched
    When "cart" starts
    Then exposure of pod "cart" was 0

    @mutant:silence-uninstalls
    Examples:
      | fault                |
      | hangs                |
      | answers 503          |
      | drops the connection |

  @mutant:own-pod-asked
  Scenario: The API server resets every new connection
    When the API server resets connections
    And the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s
    When the API server is well again
    And "cart" starts
    Then exposure of pod "cart" was 0

  @mutant:silence-uninstalls
  Scenario: The DaemonSet goes during an outage, and what stays fails closed
    When the API server falls silent on a watch of daemonsets.apps
    And the API server answers 503 on a get of daemonsets.apps
    And the DaemonSet is deleted
    Then what is installed was not touched
    When nobody uses the node agent's token for 10 s
    And "cart" starts
    Then it does not start: code 11, "it answered 401"
    And nothing of pod "cart" has run, and nothing got past
