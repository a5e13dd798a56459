@real-kernel @install-cni
Feature: A person at the node asks what is installed and what is wrong
  `install-cni status` looks at the node itself and compares it with the settings of the running agent, whoever said them.

  @millrace @mutant:status-by-own-settings
  Scenario: A changed ConfigMap is no fault of the node
    Given the node agent is ready
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "kube-system,elsewhere"
    Then the node agent says "settings changed"
    And its status finds nothing wrong
    And the status says "those of the running agent"
    And the status says "EXCLUDE_NAMESPACES=kube-system,elsewhere (from the ConfigMap)"

  @millrace @mutant:status-all-well
  Scenario: A node that lost its network
    Given pods may be left that nobody can delete: "cni plugin not initialized"
    And the node agent is ready
    When somebody removes "10-lab.conflist"
    Then its status finds "the configuration of the node's network is not right"
    And its status finds "the agent says of conflist"

  @millrace @mutant:status-all-well
  Scenario: Credentials that every user of the node can read
    Given the node agent's setting "KUBECONFIG_MODE" is "0644"
    And the node agent is ready
    Then its status finds "every user of the node can read the plugin's credentials (mode 0644)"

  @millrace @mutant:status-all-well
  Scenario: A setting that the running agent cannot follow
    Given the node agent is ready
    When its ConfigMap sets "MONITORING_PORT" to "15015"
    Then its status finds "is not applied: it holds from the next start of the pod on"

  @millrace @mutant:token-logged
  Scenario: Nobody is told the plugin's token
    Given the node agent is ready
    Then the plugin's token is told nowhere
