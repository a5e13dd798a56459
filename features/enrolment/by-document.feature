@real-kernel @install-cni @istio-iptables @millrace
Feature: One document says who writes the rules of pods
  What installs the node agent also tells the injector. Where the document enables CNI, pods get istio-validation and the plugin writes
  their rules; where it does not, each pod brings istio-init, and the plugin leaves it alone.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"
    And pod "outside" outside the mesh

  @mutant:no-outbound-capture
  Scenario: An IstioOperator with the component cni
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        components:
          cni:
            enabled: true
      """
    And pod "cart" of the mesh
    And it is injected as that document says
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "istio-system"
    And its init container is "istio-validation"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:always-installed
  Scenario: An IstioOperator without it
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        profile: default
      """
    And pod "cart" of the mesh
    And it is injected as that document says
    When manifests are rendered
    Then nothing is rendered
    And it ends with exit code 0
    And its init container is "istio-init"
    And TCP from "cart" to "outside" port 8080 passes 15001

  Scenario Outline: A ServiceMesh with cni.enabled <enabled>
    Given a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        componentConfig:
          - name: istioCni
            group: istio
            cni:
              namespace: kube-system
        istioConfig:
          cni:
            enabled: <enabled>
      """
    And pod "cart" of the mesh
    And it is injected as that document says
    When manifests are rendered
    Then it says "<told>"
    And its init container is "<container>"
    And TCP from "cart" to "outside" port 8080 passes 15001

    @mutant:control-plane-untold
    Examples:
      | enabled | container        | told                                                  |
      | true    | istio-validation | note: set on the control plane: pilot.cni.enabled=true |

    @mutant:no-outbound-capture
    Examples:
      | enabled | container  | told                                                      |
      | false   | istio-init | pods get istio-init, and the plugin leaves those alone    |
