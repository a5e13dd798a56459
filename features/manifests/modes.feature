@install-cni @millrace
Feature: The agent gets what its mode needs, and no more
  What is done about pods that came up without rules decides which rights, capabilities and mounts the agent has.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:repair-right-always
  Scenario Outline: <mode> needs no right to change pods
    When manifests are rendered with "<arguments>"
    Then there is no ClusterRole "istio-cni-repair-role"
    And there is no ClusterRoleBinding "istio-cni-repair-rolebinding"
    And there is no ValidatingAdmissionPolicy

    Examples:
      | mode            | arguments                                                                |
      | Repair in place | --set repair.deletePods=true,repair.labelPods=true                       |
      | No repair       | --set repair.enabled=false,repair.repairPods=false,repair.deletePods=true |

  @mutant:probed-by-port
  Scenario: On the node's network the agent is probed by its own program, and no port is declared
    When manifests are rendered with "--set hostNetwork=true"
    Then DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/readinessProbe/exec/command = ["install-cni","probe","readyz"]
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/startupProbe/exec/command = ["install-cni","probe","healthz"]
    And DaemonSet "istio-cni-node" has no spec/template/spec/containers/install-cni/readinessProbe/httpGet
    And DaemonSet "istio-cni-node" has no spec/template/spec/containers/install-cni/ports

  @mutant:policy-left-out
  Scenario Outline: <mode> brings one right, on pods of the own node
    When manifests are rendered with "--set <values>"
    Then ClusterRole "istio-cni-repair-role" has rules = [{"apiGroups":[""],"resources":["<resource>"],"verbs":["<verb>"]}]
    And ValidatingAdmissionPolicy "istio-cni-own-pods" has spec/matchConstraints/resourceRules/0/operations = ["<operation>"]
    And ValidatingAdmissionPolicyBinding "istio-cni-own-pods" has spec/validationActions = ["Deny"]

    Examples:
      | mode                | values                                                             | resource    | verb   | operation |
      | Deleting            | repair.repairPods=false,repair.deletePods=true,repair.labelPods=true | pods        | delete | DELETE    |
      | Labelling           | repair.repairPods=false,repair.labelPods=true                      | pods/status | patch  | UPDATE    |
      | Falling back on one | repair.fallback=delete                                             | pods        | delete | DELETE    |
      | Or on the other     | repair.fallback=label                                              | pods/status | patch  | UPDATE    |

  @mutant:policy-of-any-node
  Scenario: The policy knows the caller's node
    When manifests are rendered with "--set repair.fallback=delete"
    Then ValidatingAdmissionPolicy "istio-cni-own-pods" has spec/validations/0/expression = "variables.node != '' && has(oldObject.spec.nodeName) && oldObject.spec.nodeName == variables.node"

  @mutant:capability-too-many @mutant:mount-too-many
  Scenario: Without repair the agent enters no pod
    When manifests are rendered with "--set repair.enabled=false"
    Then DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/capabilities = {"drop":["ALL"],"add":["DAC_OVERRIDE"]}
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/allowPrivilegeEscalation = false
    And DaemonSet "istio-cni-node" has no spec/template/spec/volumes/cni-host-procfs
    And DaemonSet "istio-cni-node" has no spec/template/spec/containers/install-cni/env/MILLRACE_NETNS_DIR

  @mutant:capability-too-few
  Scenario Outline: With repair it sees processes and namespaces of the node, <values>
    When manifests are rendered with "--set <values>"
    Then DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/volumeMounts/cni-host-procfs/readOnly = true
    And its container has MILLRACE_NETNS_DIR = "/var/run/netns"
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/capabilities/add = [<capabilities>]

    Examples:
      | values                                         | capabilities                                                                     |
      | repair.repairPods=true                         | "NET_ADMIN","NET_RAW","SYS_PTRACE","SYS_ADMIN","DAC_OVERRIDE","SETUID","SETGID" |
      | repair.repairPods=false,repair.deletePods=true | "NET_ADMIN","NET_RAW","SYS_PTRACE","SYS_ADMIN","DAC_OVERRIDE"                   |

  @mutant:upstreams-spelling
  Scenario: The merged file has the name that was asked for
    When manifests are rendered with "--set istioOwnedCNIConfig=true,istioOwnedCNIConfigFileName=00-istio.conflist"
    Then its setting ISTIO_OWNED_CNI_CONFIG is "true"
    And its setting ISTIO_OWNED_CNI_CONFIG_FILENAME is "00-istio.conflist"
