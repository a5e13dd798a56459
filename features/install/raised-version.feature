@real-kernel @install-cni @millrace
Feature: The version of a list is raised only while every plugin can do it (k3s-5854, k3s-6118)
  Runtimes call each plugin of a list, and plugins their IPAM plugin, with the list's cniVersion: one that cannot do it fails, and with it every
  pod of the node. The owner's version is noted in our entry, and restored.

  @mutant:version-not-lowered
  Scenario: A plugin that can no longer do it has the owner's version again
    Given the node's network is that of "terway"
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    When the node agent is deployed
    Then the configuration "10-terway.conflist" contains "'cniVersion': '1.1.0'"
    When the node's plugin "terway" is replaced by one that does not start
    Then the configuration "10-terway.conflist" contains "'cniVersion': '0.4.0'"
    And the conflist "10-terway.conflist" lists "terway, istio-cni"

  @mutant:version-not-lowered
  Scenario: Without the setting it is the owner's again
    Given the node's network is that of "terway"
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    And the node agent is ready
    When its ConfigMap sets "MILLRACE_RAISE_CNI_VERSION" to "false"
    Then the configuration "10-terway.conflist" contains "'cniVersion': '0.4.0'"

  @mutant:version-kept
  Scenario: The uninstall restores it
    Given the node's network is that of "terway"
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And the node agent is ready
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And the configuration "10-terway.conflist" contains "'cniVersion': '1.1.0'"
    When it is deleted
    And the DaemonSet is deleted
    Then the conflist "10-terway.conflist" is as it was, byte for byte

  @mutant:ipam-unasked
  Scenario: An IPAM plugin that cannot be asked keeps the owner's version
    Given the node's network is that of "kindnet"
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    When the node agent is deployed
    Then the node agent becomes ready within 20 s
    And the conflist "10-kindnet.conflist" lists "ptp, portmap, istio-cni"
    And the configuration "10-kindnet.conflist" contains "'cniVersion': '0.3.1'"
