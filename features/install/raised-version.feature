@real-kernel @install-cni @millrace
Feature: The version of a list is raised only while every plugin can do it (k3s-5854, k3s-6118)
  Runtimes call each plugin of a list, and plugins their IPAM plugin, with the list's cniVersion: one that cannot do it fails, and with it every
  pod of the node. The owner's version is noted in our entry, and restored.

  Background:
    Given the node's plugin "lab-net" is a file
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    And the node agent is on the host's network

  @mutant:version-not-lowered
  Scenario: A plugin that can no longer do it has the owner's version again
    When the node agent is deployed
    Then the configuration "10-lab.conflist" contains "'cniVersion':'1.1.0'"
    When the node's plugin "lab-net" is replaced by one that does not start
    Then the configuration "10-lab.conflist" contains "'cniVersion':'1.0.0'"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:version-not-lowered
  Scenario: Without the setting it is the owner's again
    When the node agent is deployed
    Then the configuration "10-lab.conflist" contains "'cniVersion':'1.1.0'"
    When its ConfigMap sets "MILLRACE_RAISE_CNI_VERSION" to "false"
    Then the configuration "10-lab.conflist" contains "'cniVersion':'1.0.0'"

  @mutant:version-kept
  Scenario: The uninstall restores it
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the node agent is deployed
    Then the configuration "10-lab.conflist" contains "'cniVersion':'1.1.0'"
    And TCP from "cart" to "outside" port 8080 passes 15001
    When it is deleted
    And the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was, byte for byte

  @mutant:ipam-unasked
  Scenario: An IPAM plugin that cannot be asked keeps the owner's version
    Given the network is configured by "10-lab.conf"
    And somebody adds "ipam" = {"type": "away"} to "10-lab.conf"
    When the node agent is deployed
    Then the node agent becomes ready within 20 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"
    And the configuration "10-lab-istio-cni.conflist" contains "'cniVersion': '1.0.0'"
