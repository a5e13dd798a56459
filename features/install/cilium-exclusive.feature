@real-kernel @install-cni
Feature: Cilium in its exclusive mode moves our own list aside, again and again (field S26)

  Background:
    Given somebody writes "05-cilium.conflist":
      """
      {"cniVersion": "1.0.0", "name": "cilium", "plugins": [{"type": "cilium-cni"}]}
      """
    And the node agent's setting "ISTIO_OWNED_CNI_CONFIG" is "true"
    And the node agent is on the host's network
    And the node agent is ready

  @mutant:rival-unknown
  Scenario: The operator is told which setting ends it
    When somebody renames "02-istio-cni.conflist" to "02-istio-cni.conflist.cilium_bak" 7 times, as soon as it is there
    Then the node agent says "set cni.exclusive=false"

  @mutant:set-aside-left
  Scenario: What it set aside goes with the agent
    When somebody renames "02-istio-cni.conflist" to "02-istio-cni.conflist.cilium_bak" 1 times, as soon as it is there
    And the DaemonSet is deleted
    Then nothing of ours is left on the node
