@real-kernel @install-cni
Feature: A node without a network is not ready, and gets one nevertheless
  The kubelet asks its runtime every five seconds. While the runtime has no configuration, or STATUS of one with CNI 1.1.0 fails, the node is
  not ready and tainted, and no pod is started that needs the pods' network.

  @mutant:tolerations-dropped
  Scenario: The agent on the host's network comes up before the primary CNI
    Given 2 nodes
    And a node without the plugin
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And the primary CNI has yet to write its list
    And the node agent is on the host's network
    Then the node is not ready: "NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: "
    And the node has the taints "node.kubernetes.io/not-ready" within 10 s
    When the node agent is deployed
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When "outside" starts
    Then it waits for the node's network
    When the primary CNI writes its list
    Then the node is ready
    And it comes up within 30 s
    And the node agent becomes ready within 30 s
    And the runtime has loaded "lab-net, istio-cni" within 1000 ms
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

  @mutant:status-strict
  Scenario Outline: On a rebooted node with <runtime> STATUS does not keep the agent from being started
    Given 2 nodes
    And the node's runtime is "<runtime>"
    And the node's network speaks CNI "1.1.0"
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the node reboots
    Then the node agent becomes ready within 30 s
    And the node is ready
    And it comes up within 60 s
    And exposure of pod "cart" was 0

    Examples:
      | runtime      |
      | containerd-2 |
      | cri-o        |

  @millrace @mutant:status-blind
  Scenario Outline: Where the operator wants it the node of <runtime> is ready only while the agent is there
    Given 2 nodes
    And the node's runtime is "<runtime>"
    And the node's network speaks CNI "1.1.0"
    And the node agent is on the host's network
    And the node agent's setting "MILLRACE_STATUS_GATE" is "agent"
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    Then our entry in "10-lab.conflist" has "millrace_status_gate" = "agent"
    And the node is ready
    When the kubelet starts the node agent's containers no more
    And the node agent is killed
    Then the node is not ready: "Network plugin returns error: the node agent is not ready"
    When "cart" starts
    Then it waits for the node's network
    When the kubelet starts the node agent's containers again
    Then the node is ready
    And it comes up within 30 s
    And exposure of pod "cart" was 0

    Examples:
      | runtime      |
      | containerd-2 |
      | cri-o        |

  @mutant:no-network-is-ready
  Scenario: An immutable system (Talos, Bottlerocket) has an empty CNI directory after a reboot
    Pods wait for the primary CNI. If that is there before the agent, a pod comes up unredirected; its init container notices it, and the agent
    repairs it.

    Given 2 nodes
    And the node is of an immutable system
    And the node agent is on the host's network
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it runs
    When the node reboots
    Then the node is not ready: "NetworkReady=false reason:NetworkPluginNotReady"
    And it waits for the node's network
    And the node agent is not ready: "no runtime would find a valid network configuration"
    When the primary CNI writes its list
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms
    And the node agent becomes ready within 30 s
    And the node is ready
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
