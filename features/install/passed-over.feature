@real-kernel @install-cni
Feature: A file that no runtime can decode is no network (field S8)
  Runtimes decode what every plugin has in common. CRI-O passes over a file in which a value is of another type, and containerd has no
  network until it is corrected. An agent that takes it for the node's network is ready while CRI-O starts pods without rules.

  Background:
    Given the node's runtime is "cri-o"
    And a node without the plugin

  @mutant:undecodable-taken
  Scenario Outline: The first list has <key> that cannot be decoded
    Given somebody writes "05-odd.conflist":
      """
      {"cniVersion": "1.0.0", "name": "odd", "plugins": [{"type": "lab-net", "<key>": <value>}]}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 5 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the conflist "05-odd.conflist" is as it was, byte for byte
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms

    Examples:
      | key          | value                         |
      | dns          | {"nameservers": "10.0.0.10"}  |
      | ipam         | "host-local"                  |
      | capabilities | {"portMappings": "true"}      |

  @mutant:undecodable-taken
  Scenario: The node's network becomes one, and no longer is
    Given the node agent is ready
    When somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "lab-net", "dns": []}, {"type": "istio-cni"}]}
      """
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conflist"
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:remaking-unfought
  Scenario: Who makes a file of our plugin alone again and again is told how to stop, and met less often
    Given somebody writes "00-alone.conf":
      """
      {"cniVersion": "1.0.0", "name": "alone", "type": "istio-cni"}
      """
    And the node agent is ready
    When somebody restores "00-alone.conf" 6 times, as soon as it is gone
    Then an event "CniConfigFight" says "somebody else keeps removing our entry from 10-lab.conflist"
    And the configuration "00-alone.conf" is not there for 2 s

  @mutant:copy-name-taken
  Scenario: It has the name of a copy of the network's .conf, and stays
    Given the network is configured by "10-lab.conf"
    And somebody writes "10-lab-istio-cni.conflist":
      """
      {"cniVersion": "1.0.0", "name": "spare"}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab-istio-cni-1.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab-istio-cni.conflist" is as it was, byte for byte
