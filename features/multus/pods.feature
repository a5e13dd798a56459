@real-kernel @install-cni
Feature: Pods name our network to Multus (field S16)
  With Multus nothing is chained: our plugin is a network of its own, which a pod asks for by its annotation. Multus looks the name up among
  NetworkAttachmentDefinitions, those of the pod's namespace unless the name has another, and runs our plugin once more for the same pod.

  Background:
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:delegate-needs-result
  Scenario Outline: Multus <kind> is told "<networks>"
    Given Multus <kind> is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And its networks are <networks>
    And exposure of pod "cart" is measured, inbound as well
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And exposure of pod "cart" was 0

    Examples:
      | kind  | networks                                        |
      | thin  | default/istio-cni                               |
      | thin  | [{"name": "istio-cni", "namespace": "default"}] |
      | thick | default/istio-cni                               |
      | thick | [{"name": "istio-cni", "namespace": "default"}] |

  @mutant:delegate-needs-result
  Scenario Outline: A name without a namespace is looked up in the pod's, by Multus <kind>
    Given Multus <kind> is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And its networks are istio-cni
    Then it does not start: code 999, "cannot find a network-attachment-definition (istio-cni) in namespace (shop): network-attachment-definitions.k8s.cni.cncf.io "istio-cni" not found"
    When network "shop/istio-cni" is defined without a configuration
    Then it comes up within 10 s
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | kind  |
      | thin  |
      | thick |

  @mutant:definition-elsewhere
  Scenario: Where Multus isolates namespaces, pods refer to ours all the same
    It is in default, which is global for Multus unless somebody configures others.

    Given Multus' configuration has "namespaceIsolation" = true
    And Multus thin is installed
    And the node agent is ready
    And network "infra/storage" is defined without a configuration
    And pod "basket" of the mesh
    And its networks are infra/storage
    Then it does not start: code 999, "namespace isolation enabled, annotation violates permission, pod is in namespace shop but refers to target namespace infra"
    When "cart" is meant
    Given its networks are default/istio-cni
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:delegate-needs-result
  Scenario: Other networks stand before and after ours
    Given Multus thin is installed
    And network "shop/storage" is defined:
      """
      {"cniVersion": "1.0.0", "type": "lab-net", "ranges": ["10.211.0.0/24"], "stateDir": "NODE/storage", "number": 1, "reach": ["10.211.0.0/16"]}
      """
    And network "shop/backup" is defined:
      """
      {"cniVersion": "0.3.1", "plugins": [
        {"type": "lab-net", "ranges": ["10.212.0.0/24"], "stateDir": "NODE/backup", "number": 2, "reach": ["10.212.0.0/16"]}
      ]}
      """
    And the node agent is ready
    And its networks are storage, default/istio-cni, backup@backup0
    When "cart" starts
    Then it runs
    And it has the interfaces "backup0, eth0, net1"
    And TCP from "cart" to "outside" port 8080 passes 15001
    When it is deleted
    Then the plugin's last DEL succeeded

  @long @mutant:survey-blind
  Scenario: A pod that names nothing is not redirected, and the agent says so
    Given Multus thin is installed
    And the node agent is ready
    When "cart" starts
    Then its namespace holds no rule
    And the node agent tells of it: UnredirectedPod, "is not redirected as it should be"
