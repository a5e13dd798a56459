@real-kernel @install-cni
Feature: The node agent is ready once the runtime has loaded its entry
  A list that is written is not loaded yet: a runtime reads the directory when its watcher gets to it, and CRI-O asks every plugin for its VERSION
  first. A pod that starts meanwhile is set up with the list before.

  @mutant:written-is-loaded
  Scenario: A pod that waits for the node's taint is not set up with the list before
    Given the node's runtime is "cri-o"
    And the node's runtime notices a change of its configuration after 900 ms
    And a node without the plugin
    And the chart's value "taint.mode" is "node"
    And the node is made with the taints "cni.istio.io/not-ready"
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When "cart" is created
    And the node agent is deployed
    Then exposure of pod "cart" was 0

  @mutant:other-network-unseen
  Scenario: The runtime goes by a network of another name, and the file of that is named then
    `cni_default_network` of CRI-O: the directory does not say which network is used.

    Given the node's runtime is "cri-o"
    And the node's runtime goes by the network "azure"
    And network "azure" is in "20-azure.conflist" as well
    And pod "cart" of the mesh
    And the node agent is ready
    When "cart" starts
    Then the node agent is not ready: "without it: set CNI_CONF_NAME"
    And the node agent is not ready: "10-lab.conflist"
    When the chart is applied again with "cniConfFileName=20-azure.conflist"
    Then the conflist "20-azure.conflist" lists "lab-net, istio-cni" within 40000 ms
    And the runtime has loaded "lab-net, istio-cni" within 2000 ms

  @mutant:podmans-network-taken
  Scenario Outline: A list of <owner> is not the node's network
    Given a node without the plugin
    And the node agent is on the host's network
    And the primary CNI has yet to write its list
    And somebody writes "87-other.conflist":
      """
      {"cniVersion": "0.4.0", "name": "<owner>", "plugins": [{<plugin>}]}
      """
    When the node agent is deployed
    Then the node agent is not ready: "no runtime would find a valid network configuration in /"
    And the conflist "87-other.conflist" is as it was, byte for byte
    When somebody writes "15-late.conflist":
      """
      {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "lab-net"}]}
      """
    Then the node agent becomes ready within 10 s
    And the conflist "15-late.conflist" lists "lab-net, istio-cni"
    And the conflist "87-other.conflist" is as it was, byte for byte

    Examples:
      | owner    | plugin                                      |
      | podman   | "type": "bridge", "bridge": "cni-podman0"   |
      | loopback | "type": "loopback"                          |

  @mutant:list-emptied
  Scenario Outline: A runtime that reads at each change never loses its network: <runtime>
    A list that is wrong for some milliseconds is loaded, the node is not ready, and pods of that moment fail.

    Given the node's runtime is "<runtime>"
    And a node without the plugin
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the runtime has loaded "lab-net, istio-cni" within 2000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "kube-system,builds"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system", "builds"]
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was, byte for byte
    And the runtime has never lost its network

    Examples:
      | runtime        |
      | containerd-1.6 |
      | containerd-2   |
      | cri-o          |
