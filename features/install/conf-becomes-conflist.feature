@real-kernel @install-cni
Feature: A .conf of one plugin becomes a .conflist (installer faults 1 and 8; crash points: field S28)
  A plugin can be chained only to a list. At every moment there is a network that a runtime can read, and a list of somebody else is
  never lost.

  Background:
    Given the network is configured by "10-lab.conf"

  @mutant:removed-before-written @mutant:written-in-place
  Scenario: The list is there before the .conf goes, whole
    Given the CNI directory is watched
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the configuration "10-lab.conf" is not there
    And at every moment it held a whole network

  @mutant:counterpart-overwritten
  Scenario: Somebody else's list of that name stays, and ours comes before it
    Given somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name": "spare", "plugins": [{"type": "spare"}]}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conf.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab.conflist" is as it was

  @mutant:conf-left-behind
  Scenario: A .conf that its writer writes again is followed
    Given the node agent is ready
    When somebody restores "10-lab.conf"
    Then the configuration "10-lab.conf" is not there
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:counterpart-unknown
  Scenario: It is followed to another plugin, too, by an agent that did not make the list
    Given the node agent is ready
    And pods may be left that nobody can delete: "failed to find plugin "other""
    When the node agent is killed
    And somebody writes "10-lab.conf":
      """
      {"cniVersion": "1.0.0", "name": "lab", "type": "other"}
      """
    Then the configuration "10-lab.conf" is not there
    And the conflist "10-lab.conflist" lists "other, istio-cni" within 5000 ms
    And the configuration "10-lab.conf.conflist" is not there

  @mutant:former-list-first
  Scenario: It is followed back to its former network, by agents that made none of the lists
    Given the node agent is ready
    And pods may be left that nobody can delete: "failed to find plugin "other""
    When the node agent is killed
    And somebody writes "10-lab.conf":
      """
      {"cniVersion": "1.0.0", "name": "other", "type": "other"}
      """
    Then the conflist "10-lab.conf.conflist" lists "other, istio-cni" within 5000 ms
    When the node agent is killed
    And somebody restores "10-lab.conf"
    Then the configuration "10-lab.conf" is not there
    And the conflist "10-lab.conf.conflist" lists "lab-net, istio-cni" within 5000 ms
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms

  @mutant:remaking-unfought
  Scenario: Who makes the .conf again and again is told how to stop, and met less often
    Given the node agent is ready
    When somebody restores "10-lab.conf" 6 times, as soon as it is gone
    Then an event "CniConfigFight" says "somebody else keeps removing our entry from 10-lab.conflist"
    And the configuration "10-lab.conf" is not there
