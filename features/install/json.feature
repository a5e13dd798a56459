@real-kernel @install-cni
Feature: A .json of one plugin is a network as a .conf is (installer faults 1 and 8)
  Runtimes read both. The list that is made of it has a name of its own, before that of the file.

  Background:
    Given the network is configured by "10-lab.json"

  @mutant:json-left-behind @mutant:dies-once
  Scenario: A .json that its writer writes again is followed
    Given the node agent is ready
    When somebody restores "10-lab.json"
    Then the configuration "10-lab.json" is not there
    And the conflist "10-lab.json.conflist" lists "lab-net, istio-cni"
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
