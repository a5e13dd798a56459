@install-cni @millrace
Feature: What the agent may do is what it asks for
  It reads pods everywhere, because a node's pods are of every namespace. In its own namespace it reads two objects, by name, and the
  namespace itself.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:role-without-names
  Scenario: In its namespace
    When manifests are rendered with "--namespace mesh"
    Then there is a Role "istio-cni" in namespace "mesh"
    And Role "istio-cni" has rules/0 = {"apiGroups":[""],"resources":["configmaps"],"resourceNames":["istio-cni-config"],"verbs":["list","watch"]}
    And Role "istio-cni" has rules/1 = {"apiGroups":["apps"],"resources":["daemonsets"],"resourceNames":["istio-cni-node"],"verbs":["get","list","watch"]}
    And Role "istio-cni" has rules/2 = {"apiGroups":[""],"resources":["namespaces"],"resourceNames":["mesh"],"verbs":["get"]}
    And Role "istio-cni" has no rules/3

  @mutant:role-without-names
  Scenario: OpenShift has to allow what is mounted
    When manifests are rendered with "--platform openshift"
    Then ClusterRole "istio-cni" has rules/3 = {"apiGroups":["security.openshift.io"],"resources":["securitycontextconstraints"],"resourceNames":["privileged"],"verbs":["use"]}

  @mutant:controller-as-root
  Scenario Outline: A controller of taints is nobody on its node, in mode <mode>
    When manifests are rendered with "--set taint.mode=<mode>"
    Then Deployment "istio-cni-taint" has spec/template/spec/containers/taint-controller/securityContext/runAsNonRoot = true
    And Deployment "istio-cni-taint" has spec/template/spec/containers/taint-controller/securityContext/capabilities = {"drop":["ALL"]}
    And Deployment "istio-cni-taint" has no spec/template/spec/volumes
    And ClusterRole "istio-cni-taint" has rules = [{"apiGroups":[""],"resources":["nodes"],"verbs":["get","list","watch","patch"]}]
    And Role "istio-cni-taint-pods" has rules = [{"apiGroups":[""],"resources":["pods"],"verbs":["list","watch"]}]

    Examples:
      | mode      |
      | readiness |
      | untaint   |

  @mutant:network-in-own-namespace
  Scenario: Pods of every namespace find the plugin's network
    When manifests are rendered with "--namespace mesh --set provider=multus,chained=false"
    Then there is a NetworkAttachmentDefinition "istio-cni" in namespace "default"
    And NetworkAttachmentDefinition "istio-cni" has no spec

  @mutant:scope-ignored
  Scenario: One applies what is of the cluster, and another one the rest
    When manifests are rendered with "--set global.resourceScope=cluster,taint.mode=readiness,repair.fallback=label"
    Then there is no Role
    And there is no DaemonSet
    And there is no Deployment
    And there is no ServiceAccount
    When manifests are rendered with "--set global.resourceScope=namespace,taint.mode=readiness,repair.fallback=label"
    Then there is no ClusterRole
    And there is no ClusterRoleBinding
    And there is no ValidatingAdmissionPolicy
    And there is a DaemonSet "istio-cni-node" in namespace "istio-system"

  @mutant:upstreams-spelling
  Scenario: The merged file has the name that was asked for
    When manifests are rendered with "--set istioOwnedCNIConfig=true,istioOwnedCNIConfigFileName=00-istio.conflist"
    Then its setting ISTIO_OWNED_CNI_CONFIG is "true"
    And its setting ISTIO_OWNED_CNI_CONFIG_FILENAME is "00-istio.conflist"

  @mutant:controller-fixed-user
  Scenario: On OpenShift a controller of taints takes the user that its namespace has
    When manifests are rendered with "--platform openshift --set taint.mode=readiness"
    Then Deployment "istio-cni-taint" has spec/template/spec/containers/taint-controller/securityContext/runAsNonRoot = true
    And Deployment "istio-cni-taint" has no spec/template/spec/containers/taint-controller/securityContext/runAsUser
    And Deployment "istio-cni-taint" has no spec/template/spec/containers/taint-controller/securityContext/runAsGroup

  @mutant:controller-stays-on-dead-nodes
  Scenario: A controller of taints leaves a node that is lost, and two are never on one node by choice
    When manifests are rendered with "--set taint.mode=untaint"
    Then Deployment "istio-cni-taint" has spec/replicas = 2
    And Deployment "istio-cni-taint" has spec/template/spec/tolerations/0 = {"key":"cni.istio.io/not-ready","operator":"Exists"}
    And Deployment "istio-cni-taint" has spec/template/spec/tolerations/4 = {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}
    And Deployment "istio-cni-taint" has no spec/template/spec/tolerations/5
    And Deployment "istio-cni-taint" has spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/topologyKey = "kubernetes.io/hostname"

  @mutant:app-armor-annotated
  Scenario Outline: AppArmor is told by the field, on servers that have it: <version>
    When manifests are rendered with "--kube-version <version>"
    Then DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/appArmorProfile = {"type":"Unconfined"}
    And DaemonSet "istio-cni-node" has no spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1install-cni

    Examples:
      | version |
      | v1.30.0 |
      | v1.34.4 |

  @mutant:app-armor-field-for-all
  Scenario: And by the annotation on older ones
    When manifests are rendered with "--kube-version v1.29.9"
    Then DaemonSet "istio-cni-node" has spec/template/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1install-cni = "unconfined"
    And DaemonSet "istio-cni-node" has no spec/template/spec/containers/install-cni/securityContext/appArmorProfile

  @mutant:rights-without-policies
  Scenario: Rights in the whole cluster are refused for servers without admission policies, unless that was decided
    When manifests are rendered with "--kube-version v1.29.9 --set taint.mode=readiness"
    Then it ends with exit code 1 and says "admissionPolicy.enabled: true contradicts kubeVersion: "v1.29.9": before 1.30 Kubernetes has no ValidatingAdmissionPolicy"
    And nothing is rendered
    When manifests are rendered with "--kube-version v1.29.9 --set taint.mode=readiness --set admissionPolicy.enabled=false"
    Then there is no ValidatingAdmissionPolicy
