@real-kernel @install-cni
Feature: A .json of one plugin is a network as a .conf is (installer faults 1 and 8)
  Runtimes read both. The copy with our entry sorts before that file, too.

  Background:
    Given the network is configured by "10-lab.json"

  @mutant:copy-behind-owner @mutant:dies-once
  Scenario: A .json is read as its copy, which follows it
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab-istio-cni.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab.json" is as it was, byte for byte
    When somebody adds "x-more" = 1 to "10-lab.json"
    Then the configuration "10-lab-istio-cni.conflist" contains "'x-more': 1"
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
