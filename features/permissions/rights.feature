@real-kernel @install-cni
Feature: The agent and the controllers of taints have the rights that their modes need, and no more
  What the chart renders is what the API server enforces. A right that is missing turns any scenario of the agent red.

  @millrace @mutant:verb-too-many
  Scenario: The usual rights
    Given the node agent is ready
    Then the node agent's rights are:
      """
      get,list,watch pods
      get nodes
      create,patch events
      list,watch configmaps named istio-cni-config in namespace istio-system
      get,list,watch daemonsets of group apps named istio-cni-node in namespace istio-system
      get namespaces named istio-system in namespace istio-system
      """
    And its rights are the usual ones

  @millrace
  Scenario Outline: Rights where <values>
    Given the chart's values are "<values>"
    And the node agent is ready
    Then its rights are <rights>

    @mutant:repair-right-always
    Examples:
      | values                                                                 | rights                                   |
      | repair.enabled=false, repair.deletePods=true                           | the usual ones                           |
      | repair.deletePods=true, repair.labelPods=true                          | the usual ones                           |

    @mutant:verb-too-many
    Examples:
      | values                                                                 | rights                                   |
      | repair.repairPods=false, repair.deletePods=true                        | the usual ones and "delete pods"         |
      | repair.repairPods=false, repair.labelPods=true                         | the usual ones and "patch pods/status"   |
      | repair.repairPods=false, repair.deletePods=true, repair.labelPods=true | the usual ones and "delete pods"         |
      | repair.repairPods=false                                                | the usual ones                           |
      | hostNetwork=true, statusGate=agent                                     | the usual ones                           |
      | chained=false                                                          | the usual ones                           |
      | taint.mode=untaint                                                     | the usual ones                           |
      | taint.mode=readiness                                                   | the usual ones                           |

    @mutant:repair-right-left-out
    Examples:
      | values                                                                 | rights                                   |
      | repair.fallback=delete                                                 | the usual ones and "delete pods"         |
      | repair.fallback=label                                                  | the usual ones and "patch pods/status"   |

  @millrace @mutant:verb-too-many
  Scenario: The rights of an agent that minds the taint of its own node
    Given the chart's value "taint.mode" is "node"
    And the node agent is ready
    Then the node agent's rights are:
      """
      get,list,watch pods
      get,list,watch,patch nodes
      create,patch events
      list,watch configmaps named istio-cni-config in namespace istio-system
      get,list,watch daemonsets of group apps named istio-cni-node in namespace istio-system
      get namespaces named istio-system in namespace istio-system
      """

  @millrace @mutant:controller-verb-too-many
  Scenario: The rights of the controller that taints and untaints
    Given the chart's value "taint.mode" is "readiness"
    And the chart's value "taint.config" is "[{selector: k8s-app=istio-cni-node}, {namespace: kube-system, selector: k8s-app=dns}]"
    When the taint controller runs
    Then the taint controller's rights are:
      """
      get,list,watch,patch nodes
      create,patch events in namespace default
      list,watch pods in namespace istio-system
      list,watch pods in namespace kube-system
      list,watch configmaps named istio-cni-taint-configmap in namespace istio-system
      create leases of group coordination.k8s.io in namespace istio-system
      get,update leases of group coordination.k8s.io named istio-taint-lock in namespace istio-system
      """

  @millrace @mutant:controller-verb-too-many
  Scenario: The rights of the controller that only untaints
    Given the chart's value "taint.mode" is "untaint"
    When the taint controller runs
    Then the taint controller's rights are:
      """
      get,list,watch,patch nodes
      create,patch events in namespace default
      list,watch pods in namespace istio-system
      create leases of group coordination.k8s.io in namespace istio-system
      get,update leases of group coordination.k8s.io named istio-node-untaint in namespace istio-system
      """

  Scenario Outline: What no mode allows: to <try>
    Given another node "there"
    And pod "near" of the mesh on node "node-1"
    And the node agent is ready
    When the node agent's token is used to <try>
    Then that is denied: "cannot <right>"

    @mutant:role-of-everything
    Examples:
      | try                                                                                 | right                                             |
      | list secrets ""                                                                     | list resource "secrets"                           |
      | get secrets "istio-system/any"                                                      | get resource "secrets"                            |
      | get configmaps "istio-system/other"                                                 | get resource "configmaps"                         |
      | list configmaps ""                                                                  | list resource "configmaps"                        |
      | patch configmaps "istio-system/istio-cni-config" with `{"data":{"REPAIR_DELETE_PODS":"true"}}` | patch resource "configmaps"            |
      | patch daemonsets.apps "istio-system/istio-cni-node" with `{"metadata":{"labels":{"a":"b"}}}`   | patch resource "daemonsets"            |
      | delete pods "shop/near"                                                             | delete resource "pods"                            |
      | patch pods "shop/near" with `{"metadata":{"labels":{"a":"b"}}}`                     | patch resource "pods"                             |
      | patch pods/status "shop/near" with `{"metadata":{"labels":{"a":"b"}}}`              | patch resource "pods/status"                      |
      | create pods "shop/" with `{"metadata":{"name":"x"}}`                                | create resource "pods"                            |
      | create pods/binding "shop/near" with `{"target":{"name":"there"}}`                  | create resource "pods/binding"                    |
      | list nodes ""                                                                       | list resource "nodes"                             |
      | patch nodes "node-1" with `{"metadata":{"labels":{"a":"b"}}}`                       | patch resource "nodes"                            |
      | patch nodes/status "node-1" with `{"status":{"phase":"x"}}`                         | patch resource "nodes/status"                     |
      | create serviceaccounts/token "istio-system/default" with `{"spec":{}}`              | create resource "serviceaccounts/token"           |
      | create clusterrolebindings.rbac.authorization.k8s.io "" with `{"metadata":{"name":"x"}}` | create resource "clusterrolebindings"        |
      | delete validatingadmissionpolicies.admissionregistration.k8s.io "istio-cni-own-pods" | delete resource "validatingadmissionpolicies"    |
