@real-kernel @install-cni
Feature: Our entry is chained to the networks that clusters have (field 4; S8 and S9)
  Each network writes its list in a form of its own: with plugins behind the first, of older versions of CNI, on one line. Our entry comes last in
  each, pods get their addresses and our rules, and afterwards the list is what its owner wrote, to the byte.

  @mutant:ours-first
  Scenario Outline: <network>
    Given the node's network is that of "<network>"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the node agent is deployed
    Then the node agent becomes ready within 20 s
    And the conflist "<file>" lists "<plugins>, istio-cni"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
    When it is deleted
    And the DaemonSet is deleted
    Then the conflist "<file>" is as it was

    Examples:
      | network | file                | plugins                      |
      | calico  | 10-calico.conflist  | calico, portmap, bandwidth   |
      | flannel | 10-flannel.conflist | flannel, portmap             |
      | cilium  | 05-cilium.conflist  | cilium-cni                   |
      | aws-vpc | 10-aws.conflist     | aws-cni, egress-cni, portmap |
      | azure   | 10-azure.conflist   | azure-vnet, portmap          |
      | gke     | 10-gke-ptp.conflist | ptp, portmap, cilium-cni     |
      | antrea  | 10-antrea.conflist  | antrea, portmap, bandwidth   |
      | kindnet | 10-kindnet.conflist | ptp, portmap                 |
      | k3s     | 10-flannel.conflist | flannel, portmap, bandwidth  |
      | terway  | 10-terway.conflist  | terway                       |

  @mutant:copy-behind-owner
  Scenario Outline: The .conf of <network> stays, and its copy is read first
    Given the node's network is that of "<network>"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the node agent is deployed
    Then the node agent becomes ready within 20 s
    And the conflist "<copy>" lists "<plugin>, istio-cni"
    And the conflist "<file>" is as it was, byte for byte
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
    When it is deleted
    And the DaemonSet is deleted
    Then the conflist "<file>" is as it was, byte for byte
    And the configuration "<copy>" is not there for 2 s

    Examples:
      | network        | file                   | copy                                 | plugin              |
      | kube-router    | 10-kuberouter.conf     | 10-kuberouter-istio-cni.conflist     | bridge              |
      | ovn-kubernetes | 10-ovn-kubernetes.conf | 10-ovn-kubernetes-istio-cni.conflist | ovn-k8s-cni-overlay |
      | flannel-old    | 10-containernet.conf   | 10-containernet-istio-cni.conflist   | flannel             |
      | terway-old     | 10-terway.conf         | 10-terway-istio-cni.conflist         | terway              |

  @mutant:not-last-is-right
  Scenario: Ours comes last again when the owner appends a plugin
    Given the node's network is that of "flannel"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the owner of "10-flannel.conflist" appends the plugin "bandwidth"
    Then the conflist "10-flannel.conflist" lists "flannel, portmap, bandwidth, istio-cni" within 1000 ms
    And TCP from "cart" to "outside" port 8080 passes 15001
