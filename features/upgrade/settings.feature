@real-kernel @install-cni
Feature: A changed setting reaches the node without a restart
  The agent watches its ConfigMap. What a running agent can follow is in the plugin's entry within a second; what it cannot follow keeps
  its old value, and somebody is told.

  @mutant:environment-beats-config-map
  Scenario: Excluded namespaces follow, although the chart hands them to the pod as variables as well
    Given the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system"
    And the node agent is ready
    And pod "cart" of the mesh
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system"]
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "kube-system,shop"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system", "shop"] within 1000 ms
    And the node agent says "settings changed"
    And the node agent never said "repair-enabled"
    And the node agent runs since its start
    When "cart" starts
    Then its namespace holds no rule

  @mutant:environment-beats-config-map
  Scenario: The ConfigMap wins over a variable of the DaemonSet
    Given the node agent's environment has "EXCLUDE_NAMESPACES" = "other"
    And the node agent's setting "EXCLUDE_NAMESPACES" is "shop"
    And the node agent is ready
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop"] within 1000 ms
    When its ConfigMap no longer has "EXCLUDE_NAMESPACES"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["other"] within 1000 ms

  @mutant:copies-kept
  Scenario: A key that goes from the ConfigMap has its default again
    Given the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system,shop"
    And the node agent is ready
    And the node agent follows its ConfigMap
    When its ConfigMap no longer has "EXCLUDE_NAMESPACES"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = null within 1000 ms
    And the node agent runs since its start

  @mutant:plugin-level-fixed
  Scenario: The plugin's log level follows
    Given the node agent is ready
    When its ConfigMap sets "LOG_OUTPUT_LEVEL" to "default:info,cni-plugin:debug"
    Then our entry in "10-lab.conflist" has "plugin_log_level" = "debug" within 1000 ms
    And the node agent runs since its start

  @mutant:flag-loses
  Scenario: A flag wins
    Given the node agent has the flag "--log_output_level=info"
    And the node agent is ready
    When its ConfigMap sets "LOG_OUTPUT_LEVEL" to "default:info,cni-plugin:debug"
    And its ConfigMap sets "EXCLUDE_NAMESPACES" to "shop"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop"] within 1000 ms
    And our entry in "10-lab.conflist" has "plugin_log_level" = "info"

  @millrace @mutant:refused-setting-applied
  Scenario: A bad value is refused by its key, and the others are applied
    Given the node agent is ready
    When its ConfigMap sets "MILLRACE_BACKEND" to "iptables"
    And its ConfigMap sets "EXCLUDE_NAMESPACES" to "shop"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop"] within 1000 ms
    And our entry in "10-lab.conflist" has no "millrace_backend"
    And an event "SettingRefused" says "MILLRACE_BACKEND="iptables" from the ConfigMap is not applied"
    And its metrics have "millrace_settings_rejected_total{key='millrace-backend'} 1"

  @mutant:refused-setting-applied
  Scenario Outline: <key> needs <what>, and is told of and left as it was
    Given the node agent is ready
    When its ConfigMap sets "<key>" to "<value>"
    Then an event "SettingRefused" says "<says>"
    And the node agent runs since its start

    Examples:
      | key                 | value      | what           | says          |
      | MOUNTED_CNI_NET_DIR | /elsewhere | another volume | other volumes |
      | MONITORING_PORT     | 15015      | another pod    | next start    |
      | KUBECONFIG_MODE     | 0644       | a template     | pod template  |

  @mutant:refused-setting-applied @mutant:warning-untyped
  Scenario: A repair policy whose right the agent lacks is refused
    Given the node agent is ready
    When its ConfigMap sets "MILLRACE_REPAIR_FALLBACK" to "delete"
    Then an event "SettingRefused" of type Warning says "the verb delete on pods"
    And the node agent runs since its start

  @mutant:own-level-fixed
  Scenario: The agent's own log level follows
    Given the node agent is ready
    When its ConfigMap sets "LOG_OUTPUT_LEVEL" to "default:error,cni-plugin:error"
    Then our entry in "10-lab.conflist" has "plugin_log_level" = "error" within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "shop"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop"] within 1000 ms
    When its ConfigMap sets "LOG_OUTPUT_LEVEL" to "default:info,cni-plugin:warn"
    Then our entry in "10-lab.conflist" has "plugin_log_level" = "warn" within 1000 ms
    When its ConfigMap sets "REPAIR_BROKEN_POD_LABEL_VALUE" to "seen"
    Then the node agent says "broken-pod-label-value"
    And the node agent never said "exclude-namespaces"
    And the node agent runs since its start

  @mutant:policy-fixed
  Scenario: A repair policy follows
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: UnredirectedPod, "no repair policy is on"
    When its ConfigMap sets "REPAIR_REPAIR_PODS" to "true"
    Then the node agent tells of it: RepairedBrokenPod
    And the node agent runs since its start
    And exposure of pod "cart" was 0

  @mutant:rights-unasked
  Scenario: A policy whose right the agent lacks is refused from the start on
    Given a node without the plugin
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And the node agent has no rights to change pods
    When the node agent is deployed
    Then an event "SettingRefused" says "the verb delete on pods"
    And the node agent becomes ready within 10 s
