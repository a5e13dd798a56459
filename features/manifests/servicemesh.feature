@install-cni @millrace
Feature: A ServiceMesh is enough to install the agent
  Its component istioCni is the agent, with the values of the chart; istioConfig.cni is what its injector goes by. That one is not set
  here, but it has to fit.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"
    And a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        componentConfig:
          - name: istioCni
            group: istio
            cni:
              namespace: kube-system
              # Advanced configuration
              values:
                logLevel: info
                cniBinDir: ""
                cniConfDir: /etc/cni/net.d
                cniConfFileName: ""
                cniNetnsDir:
                excludeNamespaces:
                  - istio-system
                  - kube-system
                chained: true
                provider: default
      """

  @mutant:namespace-ignored
  Scenario: Its namespace and its values are taken
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "kube-system"
    And its setting EXCLUDE_NAMESPACES is "istio-system,kube-system"
    And its setting CHAINED_CNI_PLUGIN is "true"
    And the agent sees "/opt/cni/bin" as /host/opt/cni/bin
    And its container has MILLRACE_NETNS_DIR = "/var/run/netns"

  @mutant:former-key-dropped
  Scenario: Its old key logLevel is the plugin's level
    Given there "logLevel: info" is "logLevel: debug"
    When manifests are rendered
    Then its setting LOG_OUTPUT_LEVEL is "info,cni-plugin:debug"
    And it does not say "logLevel"

  @mutant:control-plane-untold
  Scenario: What the injector needs is told
    When manifests are rendered
    Then it says "note: set on the control plane: pilot.cni.enabled=true"

  @mutant:control-plane-unread
  Scenario: Injector and agent must have the same provider
    Given beside it a mesh's document:
      """
      apiVersion: asm.alauda.io/v1alpha1
      kind: ServiceMesh
      spec:
        istioConfig:
          cni:
            enabled: true
            provider: multus
      """
    When manifests are rendered
    Then it ends with exit code 1 and says "spec.istioConfig.cni.provider: "multus" contradicts spec.componentConfig[istioCni].cni.values.provider: "default""

  @mutant:multus-chained-accepted
  Scenario: Multus and a chain contradict each other
    Given there "provider: default" is "provider: multus"
    When manifests are rendered
    Then it ends with exit code 1 and says "cni.values.chained: true contradicts spec.componentConfig[istioCni].cni.values.provider: "multus""
    And nothing is rendered

  @mutant:openshift-without-multus
  Scenario: On OpenShift a chain is refused
    When manifests are rendered with "--platform openshift"
    Then it ends with exit code 1 and says "cni.values.chained: true contradicts platform: "openshift""
    And it says "cni.values.provider: "default" contradicts platform: "openshift""

  @mutant:platform-path-wrong
  Scenario: On OpenShift with Multus, and its own directory
    Given there "provider: default" is "provider: multus"
    And there "chained: true" is "chained: false"
    And there "cniConfDir: /etc/cni/net.d" is "cniConfDir: /etc/cni/multus/net.d"
    When manifests are rendered with "--platform openshift"
    Then the agent sees "/var/lib/cni/bin" as /host/opt/cni/bin
    And there is a NetworkAttachmentDefinition "istio-cni" in namespace "default"
    And it says "pilot.cni.provider=multus"

  @mutant:unknown-key-passed
  Scenario Outline: "<wrong>" is told by name
    Given there "<right>" is "<wrong>"
    When manifests are rendered
    Then it ends with exit code 1 and says "<told>"

    Examples:
      | right         | wrong         | told                                                                                                   |
      | chained: true | chaind: true  | spec.componentConfig[istioCni].cni.values.chaind: true: there is no such value; did you mean chained? |
      | logLevel:     | logLevels:    | spec.componentConfig[istioCni].cni.values.logLevels: "info": there is no such value                    |
