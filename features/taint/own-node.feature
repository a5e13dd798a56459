@real-kernel @install-cni
Feature: The agent minds the taint of its own node
  Nothing central is needed, and no agent touches another node.

  Background:
    Given the chart's value "taint.mode" is "node"
    And the node is made with the taints "example.com/theirs, cni.istio.io/not-ready"

  @mutant:own-taint-stays @mutant:taints-untold
  Scenario: It goes when everything is installed and comes back when the agent is uninstalled
    Given node "far" is made with the taints "cni.istio.io/not-ready"
    And the node agent is ready
    Then the node has the taints "example.com/theirs"
    And node "far" has the taints "cni.istio.io/not-ready"
    When the DaemonSet is deleted
    Then the node has the taints "example.com/theirs, cni.istio.io/not-ready"
    And nothing of ours is left on the node
    And one event "NodeTainted" about the node counts 1

  @mutant:upgrade-retaints
  Scenario: An upgrade does not touch it
    Given the node agent is ready
    And the node has the taints "example.com/theirs"
    And what is installed is remembered
    When the DaemonSet's template changes
    Then another pod of the node agent is ready within 40 s
    And the node has the taints "example.com/theirs"
    And the node agent changed the node 1 time

  @mutant:own-taint-stays
  Scenario: A name of one's own
    Given the chart's value "taint.name" is "example.com/theirs"
    When the node agent is deployed
    Then the node has the taints "cni.istio.io/not-ready"

  @mutant:own-patch-beats-watch
  Scenario: Another writer puts it back while the watch still brings the agent's own change
    Given the API server drips 500 bytes every 20 ms on a watch of nodes
    And the node agent is ready
    And the node has the taints "example.com/theirs"
    When somebody taints the node with "cni.istio.io/not-ready"
    Then the node has the taints "example.com/theirs"
