@real-kernel @install-cni
Feature: A template in a file is followed as that changes
  Who keeps the template of our entry in a file may bring it after the agent, and edit it later. Neither takes a restart.

  @mutant:template-kept
  Scenario: It is missing at first, then broken, then right, then another
    Given the node agent's environment has "CNI_NETWORK_CONFIG_FILE" = "/host/etc/cni/net.d/entry.template"
    When the node agent is deployed
    Then the node agent is not ready: "entry.template"
    And the conflist "10-lab.conflist" is as it was
    When somebody writes "entry.template":
      """
      {"type":
      """
    Then the node agent is not ready: "EOF while parsing"
    When somebody writes "entry.template":
      """
      {"type": "istio-cni", "exclude_namespaces": ["shop"]}
      """
    Then the node agent becomes ready within 10 s
    And our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop"]
    When somebody writes "entry.template":
      """
      {"type": "istio-cni", "exclude_namespaces": ["shop", "bank"]}
      """
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["shop", "bank"] within 1000 ms
    And the node agent runs since its start
