@real-kernel @install-cni
Feature: CNI_NETWORK_CONFIG is a template of our entry, and one that the plugin cannot read never reaches a runtime
  The plugin refuses an entry that it cannot read, and with it every pod of the node. So the agent reads it first as the plugin would.

  @mutant:template-undecoded
  Scenario Outline: A template is <what>
    Given the node agent's setting "CNI_NETWORK_CONFIG" is:
      """
      <template>
      """
    When the node agent is deployed
    Then the node agent is not ready: "<says>"
    And the conflist "10-lab.conflist" is as it was
    When its ConfigMap sets "CNI_NETWORK_CONFIG" to ""
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

    Examples:
      | what                              | template                                                                      | says                        |
      | wrong about the kind of a value   | {"type": "istio-cni", "exclude_namespaces": "kube-system"}                    | a string is not a list      |
      | a list of plugins                 | {"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "istio-cni"}]}      | it has a list               |
      | a network whose name is no text   | {"name": 7, "type": "istio-cni"}                                              | a number is not a string    |

  @mutant:template-ignored
  Scenario: What it says counts, and what it lacks comes from the settings
    Given the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system"
    And the node agent's setting "CNI_NETWORK_CONFIG" is:
      """
      {"cniVersion": "0.3.1", "type": "istio-cni", "plugin_log_level": "__LOG_LEVEL__", "pod_namespace": "elsewhere"}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And our entry in "10-lab.conflist" has "pod_namespace" = "elsewhere"
    And our entry in "10-lab.conflist" has "plugin_log_level" = "info"
    And our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system"]
    And our entry in "10-lab.conflist" has no "cniVersion"

  @mutant:old-keys-hidden
  Scenario: What it says by the keys of 1.22 counts, too
    Given the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system"
    And the node agent's setting "CNI_NETWORK_CONFIG" is:
      """
      {"type": "istio-cni", "log_level": "debug", "kubernetes": {"exclude_namespaces": ["shop"]}}
      """
    And pod "cart" of the mesh
    And it is in namespace "shop"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And our entry in "10-lab.conflist" has no "plugin_log_level"
    And it runs
    And its namespace holds no rule
