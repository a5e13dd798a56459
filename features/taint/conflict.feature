@real-kernel @install-cni @millrace
Feature: Several may change a node's taints at once (field S27)
  What is written replaces the whole list, so it holds only while the list is the one that was read.

  Background:
    Given the chart's value "taint.mode" is "untaint"
    And node "far" is made with the taints "cni.istio.io/not-ready"

  @mutant:test-op-left-out
  Scenario: A taint that comes while ours is being removed stays
    Given the agent on node "far" is ready
    And the first patch of node "far" hangs
    When the taint controller runs
    And a patch of node "far" is on its way
    And somebody taints node "far" with "example.com/theirs"
    And the API server is well again
    Then the taint controller says "somebody else changed the taints first"
    And node "far" has the taints "example.com/theirs"
    And the taint controller's metrics have "millrace_node_taints_total{deed='removed',result='conflict'} 1"

  @mutant:first-conflict-gives-up
  Scenario: What failed is tried again
    Given the agent on node "far" is ready
    And the first patch of node "far" hangs
    When the taint controller runs
    And a patch of node "far" is on its way
    And somebody taints node "far" with "example.com/theirs"
    And the API server is well again
    Then node "far" has the taints "example.com/theirs"

  @mutant:first-conflict-gives-up
  Scenario: A right that is missing is told, and its coming is noticed
    Given the agent on node "far" is not ready
    And the taint controller runs
    And the taint controller may not patch nodes
    When the agent on node "far" is ready
    Then the taint controller says "denied by the API server"
    And an event "NodeTaintFailed" about node "far" is there
    When the taint controller may patch nodes again
    Then node "far" has the taints "" within 60 s
