@real-kernel @install-cni
Feature: The agent needs each right that it has
  A right that nothing uses is one too many, whoever granted it.

  @mutant:verb-too-many
  Scenario: A settled node, refused settings, a pod that the watch has not told of, a node that the DaemonSet leaves
    Given the node agent is ready
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
