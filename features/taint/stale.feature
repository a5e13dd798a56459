@real-kernel @install-cni @millrace
Feature: What was ready before a reboot is not ready (field S27)
  A machine that went down tells nobody. Until its kubelet has looked at its pods, the API server shows them as they were: ready.

  @mutant:stale-ready-believed
  Scenario: The node reboots, and is tainted by whoever saw it
    Given the chart's value "taint.mode" is "untaint"
    And node "far" is made with the taints "cni.istio.io/not-ready"
    And the agent on node "far" is ready
    And the taint controller runs
    And node "far" has the taints ""
    When node "far" reboots
    And somebody taints node "far" with "cni.istio.io/not-ready"
    Then the taint stays on node "far": "was ready before the node was started"
    When the agent on node "far" is not ready
    And the agent on node "far" is ready
    Then node "far" has the taints ""

  @mutant:stale-ready-believed
  Scenario: Another node takes its name, and finds the pods of the former one
    Given the chart's value "taint.mode" is "untaint"
    And node "far" is made with the taints ""
    And the agent on node "far" is ready
    And the taint controller runs
    And the taint controller becomes ready
    When node "far" is made with the taints "cni.istio.io/not-ready"
    Then the taint stays on node "far": "was ready before the node was started"
    When the agent on node "far" is ready
    Then node "far" has the taints ""

  @mutant:stale-ready-believed
  Scenario: A controller that did not see it cannot tell, and waits
    Given the chart's value "taint.mode" is "untaint"
    And node "far" is made with the taints ""
    And the agent on node "far" is ready
    And node "far" is made with the taints "cni.istio.io/not-ready"
    When the taint controller runs
    Then the taint stays on node "far": "may have become ready before the node was started"
    When the agent on node "far" is ready
    Then node "far" has the taints ""

  @mutant:stale-ready-believed
  Scenario: The other policy taints a node that rebooted at once
    Given the chart's value "taint.mode" is "readiness"
    And node "far" is made with the taints ""
    And the agent on node "far" is ready
    And the taint controller runs
    And the taint controller becomes ready
    When node "far" reboots
    Then node "far" has the taints "NodeReadiness"
    When the agent on node "far" is ready
    Then node "far" has the taints ""
