@install-cni @millrace
Feature: What an operator says wins
  Upstream's platforms write their values below cni, which beats an operator's value at the root. Here a platform never beats an operator,
  and the two spellings of a value are one.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:user-loses-to-platform
  Scenario Outline: Over a platform, as <spelling>
    When manifests are rendered with "--platform openshift --set <spelling>chained=true,<spelling>provider=default"
    Then its setting CHAINED_CNI_PLUGIN is "true"
    And there is no NetworkAttachmentDefinition
    And the agent sees "/var/lib/cni/bin" as /host/opt/cni/bin

    Examples:
      | spelling |
      |          |
      | cni.     |

  @mutant:spellings-may-differ
  Scenario: Two spellings that differ are named both
    When manifests are rendered with "--set chained=true,cni.chained=false"
    Then it ends with exit code 1 and says "chained: true and cni.chained: false are one value: give it once"
    And nothing is rendered

  @mutant:set-ignored
  Scenario: A word on the command line wins over a file
    Given values of the chart:
      """
      excludeNamespaces: [kube-system, tools]
      repair:
        deletePods: true
      """
    When manifests are rendered with "--set excludeNamespaces={tools},repair.repairPods=false"
    Then its setting EXCLUDE_NAMESPACES is "tools"
    And its setting REPAIR_REPAIR_PODS is "false"
    And its setting REPAIR_DELETE_PODS is "true"

  @mutant:null-is-a-value
  Scenario: Null is as good as nothing
    Given values of the chart:
      """
      cniNetnsDir:
      repair: {enabled: null}
      """
    When manifests are rendered with "--platform minikube"
    Then its container has MILLRACE_NETNS_DIR = "/var/run/docker/netns"
    And its setting REPAIR_ENABLED is "true"

  @mutant:null-keeps-lists
  Scenario: But it empties a list, and takes an entry out of what is the API's own
    Given values of the chart:
      """
      excludeNamespaces:
      tolerations:
      resources: {requests: {cpu: null}}
      """
    When manifests are rendered
    Then its setting EXCLUDE_NAMESPACES is ""
    And DaemonSet "istio-cni-node" has no spec/template/spec/tolerations
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/resources/requests = {"memory":"100Mi"}
