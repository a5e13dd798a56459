@real-kernel @install-cni
Feature: CNI_CONF_NAME names the file, and ready means that runtimes get to it (installer faults 4, 5, 6 and 8)

  @mutant:first-file-ignored @mutant:unreached-untold
  Scenario: Runtimes read another file first
    Given somebody writes "05-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "other"}]}
      """
    And the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    And the node agent is on the host's network
    When the node agent is deployed
    Then the node agent is not ready: "runtimes read 05-other.conflist first"
    And an event "CniConfigUnreached" says "runtimes read 05-other.conflist first"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the node agent never said "installed	file=10-lab.conflist"
    When somebody removes "05-other.conflist"
    Then the node agent becomes ready within 15 s

  @mutant:name-ignored
  Scenario: It is not there yet
    Given pods may be left that nobody can delete: "failed to find plugin "late""
    And the node agent's setting "CNI_CONF_NAME" is "05-late.conflist"
    When the node agent is deployed
    Then the node agent is not ready: "05-late.conflist, named by CNI_CONF_NAME, is not there"
    When somebody writes "05-late.conflist":
      """
      {"cniVersion": "1.0.0", "name": "late", "plugins": [{"type": "late"}]}
      """
    Then the node agent becomes ready within 15 s
    And the conflist "05-late.conflist" lists "late, istio-cni"

  @mutant:name-ignored
  Scenario: Another one is named, which is not there, and then none
    Given the node agent is ready
    When the chart is applied again with "cniConfFileName=20-other.conflist"
    Then the node agent is not ready: "20-other.conflist, named by CNI_CONF_NAME, is not there"
    When the chart is applied again with "cniConfFileName="
    Then another pod of the node agent is ready within 40 s

  @mutant:others-forgotten
  Scenario: What runtimes read before it keeps no former settings
    Given the node agent is ready
    And somebody writes "20-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "other"}]}
      """
    When the chart is applied again with "cniConfFileName=20-other.conflist"
    Then another pod of the node agent is ready within 40 s
    And the conflist "20-other.conflist" lists "other, istio-cni"
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "builds"
    Then our entry in "20-other.conflist" has "exclude_namespaces" = ["builds"]
    And our entry in "10-lab.conflist" has "exclude_namespaces" = ["builds"]
    And the node agent becomes ready within 15 s
