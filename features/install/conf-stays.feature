@real-kernel @install-cni
Feature: The .conf of one plugin stays its owner's, and a list of our own is read before it (linkerd2-2443; ovn-kubernetes-1117; crash points: field S28)
  A plugin can be chained only to a list. Owners look for their .conf by name: a node whose .conf is renamed stops at the owner's next start. The
  copy has the network's name and version, follows the owner's file, and is removed with it.

  Background:
    Given the network is configured by "10-lab.conf"

  @mutant:copy-behind-owner @mutant:written-in-place
  Scenario: The copy is read first, and the .conf stays as it was
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And the CNI directory is watched
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"
    And the configuration "10-lab-istio-cni.conflist" contains "'name': 'lab'"
    And the conflist "10-lab.conf" is as it was, byte for byte
    And at every moment it held a whole network
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

  @mutant:copy-kept
  Scenario: The uninstall leaves the .conf alone
    Given the node agent is ready
    When the DaemonSet is deleted
    Then nothing of ours is left on the node
    And the configuration "10-lab-istio-cni.conflist" is not there for 2 s
    And the conflist "10-lab.conf" is as it was, byte for byte

  @mutant:copy-not-followed
  Scenario: What its owner writes, the copy has as well
    Given the node agent is ready
    When somebody adds "x-more" = 1 to "10-lab.conf"
    Then the configuration "10-lab-istio-cni.conflist" contains "'x-more': 1"
    And the configuration "10-lab.conf" contains "'x-more': 1"

  @mutant:copy-not-followed
  Scenario: Another plugin of its owner is followed by an agent that did not make the copy
    Given the node agent is ready
    And pods may be left that nobody can delete: "failed to find plugin "other""
    When the node agent is killed
    And somebody writes "10-lab.conf":
      """
      {"cniVersion": "1.0.0", "name": "other", "type": "other"}
      """
    Then the conflist "10-lab-istio-cni.conflist" lists "other, istio-cni" within 5000 ms
    And the runtime has loaded "other, istio-cni" within 5000 ms

  @mutant:copy-outlives-owner
  Scenario: The copy is removed with the .conf
    Given the node agent is ready
    When somebody removes "10-lab.conf"
    Then the configuration "10-lab-istio-cni.conflist" is not there for 2 s
    And the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conf"
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"

  @mutant:copy-outlives-owner
  Scenario: The copy is removed where the .conf went while no agent ran
    Given the node agent is ready
    When the node agent is killed
    And somebody removes "10-lab.conf"
    Then the configuration "10-lab-istio-cni.conflist" is not there for 2 s
    When somebody restores "10-lab.conf"
    Then the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni" within 10000 ms

  @mutant:counterpart-unknown
  Scenario: The list of an earlier agent that took the place of the .conf is removed once the owner has written that again
    Given pods may be left that nobody can delete: "failed to find plugin "other""
    And somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"name": "lab", "type": "other"}, {"type": "istio-cni"}]}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the configuration "10-lab.conflist" is not there for 2 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"

  @mutant:fight-untold
  Scenario: Who removes the copy again and again is told how to stop, and met less often
    Given the node agent is ready
    When somebody renames "10-lab-istio-cni.conflist" to "away" 6 times, as soon as it is there
    Then an event "CniConfigFight" says "somebody else keeps removing our entry from 10-lab-istio-cni.conflist"

  @mutant:named-conf-unfound
  Scenario: CNI_CONF_NAME names a list of the name of the .conf
    Given the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab.conf" is as it was, byte for byte
