@install-cni @millrace
Feature: A ServiceMesh may say less
  Each part of a mesh's manual can be applied by itself.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:user-value-dropped
  Scenario Outline: The component with its repair policy alone: <policy>
    Given a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        componentConfig:
          - name: istioCni
            group: istio
            cni:
              values:
                repair:
                  enabled: true
                  repairPods: true
                  deletePods: false
                  labelPods: false
      """
    And there "repairPods: true" is "repairPods: <repair>"
    And there "deletePods: false" is "deletePods: <delete>"
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "kube-system"
    And its setting REPAIR_REPAIR_PODS is "<repair>"
    And its setting REPAIR_DELETE_PODS is "<delete>"

    Examples:
      | policy | repair | delete |
      | delete | false  | true   |

  @mutant:always-installed
  Scenario: The injector's part alone installs nothing, and says so
    Given a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        istioConfig:
          cni:
            enabled: true
            provider: default
      """
    When manifests are rendered
    Then nothing is rendered
    And it ends with exit code 0
    And it says "warning: nothing is installed: no input asks for the node agent"
    And it says "note: set on the control plane: pilot.cni.enabled=true, pilot.cni.provider=default"

  @mutant:control-plane-untold
  Scenario: An agent that the injector does not count on is warned of
    Given a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        componentConfig: [{name: istioCni, group: istio, cni: {namespace: kube-system}}]
        istioConfig: {cni: {enabled: false}}
      """
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "kube-system"
    And it says "warning: spec.istioConfig.cni.enabled: false: pods get istio-init"
    And it says "set on the control plane: pilot.cni.enabled=true"
