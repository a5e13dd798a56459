@install-cni @millrace
Feature: Where a cluster runs is enough to know where its nodes keep things
  The objects are rendered without Helm and without a cluster. An operator names the platform; paths and the way in which the plugin is
  run follow from it.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:platform-path-wrong
  Scenario Outline: <platform>
    When manifests are rendered with "--platform <platform>"
    Then the agent sees "<plugins>" as /host/opt/cni/bin
    And the agent sees "<configuration>" as /host/etc/cni/net.d
    And its container has MILLRACE_NETNS_DIR = "<namespaces>"

    Examples:
      | platform  | plugins                               | configuration                                | namespaces            |
      | openshift | /var/lib/cni/bin                      | /etc/cni/multus/net.d                        | /var/run/netns        |
      | gke       | /home/kubernetes/bin                  | /etc/cni/net.d                               | /var/run/netns        |
      | k3s       | /var/lib/rancher/k3s/data/cni         | /var/lib/rancher/k3s/agent/etc/cni/net.d     | /var/run/netns        |
      | k3d       | /bin                                  | /var/lib/rancher/k3s/agent/etc/cni/net.d     | /var/run/netns        |
      | microk8s  | /var/snap/microk8s/current/opt/cni/bin | /var/snap/microk8s/current/args/cni-network | /var/run/netns        |
      | minikube  | /opt/cni/bin                          | /etc/cni/net.d                               | /var/run/docker/netns |

  @mutant:more-bin-lost
  Scenario Outline: <platform> serves releases of k3s before and since the move of its plugins (k3d-1572)
    When manifests are rendered with "--platform <platform>"
    Then the agent sees "<plugins>" as /host/opt/cni/more
    And its container has MILLRACE_NODE_MORE_BIN_DIR = "<plugins>"

    Examples:
      | platform | plugins                               |
      | k3s      | /var/lib/rancher/k3s/data/current/bin |
      | k3d      | /var/lib/rancher/k3s/data/cni         |

  @mutant:multus-file-unseen
  Scenario: On OpenShift the agent sees the directory with the file of Multus
    When manifests are rendered with "--platform openshift"
    Then the agent sees "/etc/kubernetes/cni/net.d" as /host/multus/net.d
    And its container has MILLRACE_NODE_MULTUS_DIR = "/etc/kubernetes/cni/net.d"

  @mutant:openshift-everywhere
  Scenario Outline: <platform> is as most clusters are
    When manifests are rendered with "<arguments>"
    Then the agent sees "/opt/cni/bin" as /host/opt/cni/bin
    And the agent sees "/etc/cni/net.d" as /host/etc/cni/net.d
    And its container has MILLRACE_NETNS_DIR = "/var/run/netns"
    And its setting CHAINED_CNI_PLUGIN is "true"
    And there is no ResourceQuota
    And there is no NetworkAttachmentDefinition

    Examples:
      | platform         | arguments             |
      | Huawei Cloud CCE | --platform huawei-cce |
      | A nameless one   |                       |

  @mutant:platform-path-wrong
  Scenario: OpenShift runs the plugin by Multus
    When manifests are rendered with "--platform openshift"
    Then its setting CHAINED_CNI_PLUGIN is "false"
    And its setting CNI_CONF_NAME is "istio-cni.conf"
    And its container has CHAINED_CNI_PLUGIN = "false"
    And its container has CNI_CONF_NAME = "istio-cni.conf"
    And there is a NetworkAttachmentDefinition "istio-cni" in namespace "default"
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/seLinuxOptions/type = "spc_t"

  @mutant:platform-path-wrong
  Scenario: GKE lets critical pods into a namespace by quota
    When manifests are rendered with "--platform gke --namespace mesh"
    Then there is a ResourceQuota "istio-cni-resource-quota" in namespace "mesh"

  @mutant:gke-unseen
  Scenario Outline: Without a directory the server's version says whether it is GKE: <version>
    Given values of the chart:
      """
      cniBinDir: ""
      """
    When manifests are rendered with "--kube-version <version>"
    Then the agent sees "/home/kubernetes/bin" as /host/opt/cni/bin

    Examples:
      | version         |
      | v1.30.1-gke.100 |
