@install-cni @millrace
Feature: Values of charts of all ages are understood
  A file of values outlives the chart that it was written for. Former spellings are translated and told, what has no meaning any more is
  told, and a file that istiod's chart reads as well may keep what is that one's.

  @mutant:former-key-dropped
  Scenario: Values for a chart of 1.12
    Given values of the chart:
      """
      revision: canary
      cni:
        hub: example.com/istio
        tag: 1.12.0
        logLevel: debug
        excludeNamespaces: [istio-system, kube-system]
        psp_cluster_role: cni-psp
        privileged: true
        repair: {enabled: true, hub: "", tag: "", labelPods: true, deletePods: true, repairPods: false}
        taint: {enabled: true}
        rollingMaxUnavailable: 10%
      """
    When manifests are rendered
    Then its setting LOG_OUTPUT_LEVEL is "info,cni-plugin:debug"
    And it says "note: logLevel is logging.pluginLevel now"
    And it says "note: taint.enabled is taint.mode now"
    And it says "note: psp_cluster_role: "cni-psp" has no effect: Kubernetes has no PodSecurityPolicy since 1.25"
    And it says "note: privileged: true has no effect: "
    And DaemonSet "istio-cni-node" has spec/updateStrategy/rollingUpdate/maxUnavailable = "10%"
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/image = "example.com/istio/install-cni:1.12.0"
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/privileged = false
    And its setting REPAIR_DELETE_PODS is "true"

  @mutant:control-plane-unread
  Scenario Outline: What is the injector's must fit: <injector>
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"
    And values of the chart:
      """
      chained: <chained>
      provider: <provider>
      <injector>
      """
    When manifests are rendered
    Then it ends with exit code 1 and says "<field> contradicts provider: "<provider>""

    Examples:
      | injector                                   | chained | provider | field                       |
      | pilot: {cni: {provider: multus}}           | false   | default  | pilot.cni.provider: "multus" |
      | istio_cni: {enabled: true, chained: false} | false   | default  | istio_cni.chained: false    |
      | istio_cni: {enabled: true, chained: true}  | false   | multus   | istio_cni.chained: true     |

  @mutant:control-plane-untold
  Scenario: The injector's values are left to it
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"
    And values of the chart:
      """
      pilot: {cni: {enabled: true}, resources: {requests: {cpu: 1}}}
      global: {meshID: mesh1, logAsJson: true}
      """
    When manifests are rendered
    Then its setting LOG_AS_JSON is "true"
    And it says "note: set on the control plane: pilot.cni.enabled=true"
