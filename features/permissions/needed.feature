@real-kernel @install-cni @millrace @long
Feature: The agent and the controllers of taints need each right that they have
  A right that nothing uses is one too many, whoever granted it. Lists are what servers need that stream none: before Kubernetes 1.32, and 1.33.

  Scenario Outline: A settled node, refused settings, a pod that the watch has not told of, a node that the DaemonSet leaves, with taint.mode "<mode>"
    Given the API server streams no lists
    And the chart's value "taint.mode" is "<mode>"
    And the node is made with the taints "cni.istio.io/not-ready"
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    When its ConfigMap sets "MONITORING_PORT" to "15015"
    Then its metrics have "millrace_settings_rejected_total{key='monitoring-port'} 1"
    When its ConfigMap sets "MONITORING_PORT" to "15016"
    Then its metrics have "millrace_settings_rejected_total{key='monitoring-port'} 2"
    And one event "SettingRefused" about the node counts 2
    When the API server falls silent on a watch of the node's pods
    And "cart" starts
    Then it runs
    When the DaemonSet's affinity leaves the node out
    Then it has used each of its rights

    @mutant:verb-too-many
    Examples:
      | mode |
      |      |
      | node |

  Scenario Outline: A controller of taints whose patch comes too late, and that has the same to tell twice, in mode <mode>
    Given the API server streams no lists
    And the chart's value "taint.mode" is "<mode>"
    And node "far" is made with the taints "<taint>"
    And the agent on node "far" is ready
    And the first patch of node "far" hangs
    When the taint controller runs
    And a patch of node "far" is on its way
    And somebody taints node "far" with "example.com/theirs"
    And the API server is well again
    Then node "far" has the taints "example.com/theirs"
    When somebody taints node "far" with "<taint>"
    Then node "far" has the taints "example.com/theirs"
    And one event "NodeUntainted" about node "far" counts 2
    And the taint controller has used each of its rights

    @mutant:controller-verb-too-many
    Examples:
      | mode      | taint                  |
      | readiness | NodeReadiness          |
      | untaint   | cni.istio.io/not-ready |

    @mutant:controller-right-left-out
    Examples:
      | mode      | taint                  |
      | readiness | NodeReadiness          |
      | untaint   | cni.istio.io/not-ready |
