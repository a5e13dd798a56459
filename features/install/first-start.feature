@real-kernel @install-cni
Feature: The agent's first start on a node
  A node comes with a network of its own. The agent puts the plugin into it, pods of the mesh are redirected from then on, and when
  the agent goes for good the network is what it was.

  Background:
    Given a node without the plugin

  @mutant:gone-keeps
  Scenario: From nothing to redirected pods, and back
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the node agent is deployed
    Then the node agent becomes ready within 5 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was
    And the plugin's binary is on the node
    And exposure of pod "cart" was 0

  @mutant:type-hides-plugins
  Scenario: The network's list has a type beside its plugins, which runtimes do not read
    Given somebody adds "type" = "stray" to "10-lab.conflist"
    And somebody writes "20-spare.conflist":
      """
      {"cniVersion": "1.0.0", "name": "spare", "plugins": [{"type": "spare"}]}
      """
    When the node agent is deployed
    Then the node agent becomes ready within 5 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the conflist "20-spare.conflist" is as it was
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
