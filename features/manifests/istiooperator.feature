@install-cni @millrace
Feature: An IstioOperator is enough to install the agent
  Its component cni and the values of that are the agent's; the rest of the mesh is left to whoever installs the control plane.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:namespace-ignored
  Scenario: GKE
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        components:
          cni:
            enabled: true
            namespace: kube-system
        values:
          cni:
            cniBinDir: /home/kubernetes/bin
      """
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "kube-system"
    And the agent sees "/home/kubernetes/bin" as /host/opt/cni/bin

  @mutant:control-plane-unread
  Scenario: OpenShift, as up to 1.18: the annotation tells Multus
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        components:
          cni:
            enabled: true
            namespace: kube-system
        values:
          sidecarInjectorWebhook:
            injectedAnnotations:
              k8s.v1.cni.cncf.io/networks: istio-cni
          cni:
            cniBinDir: /var/lib/cni/bin
            cniConfDir: /etc/cni/multus/net.d
            cniConfFileName: istio-cni.conf
            chained: false
      """
    When manifests are rendered
    Then the agent sees "/etc/cni/multus/net.d" as /host/etc/cni/net.d
    And its setting CNI_CONF_NAME is "istio-cni.conf"
    And there is a NetworkAttachmentDefinition "istio-cni" in namespace "default"
    And it says "looked for in the namespace of each pod; the one that is rendered is default/istio-cni: write that here"
    When manifests are rendered with "--set provider=default"
    Then it ends with exit code 1 and says "k8s.v1.cni.cncf.io/networks: "istio-cni" contradicts provider: "default""

  @mutant:openshift-unseen
  Scenario: OpenShift, which the document does not name: the agent gets what it needs there
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        components:
          cni:
            enabled: true
            namespace: kube-system
        values:
          sidecarInjectorWebhook:
            injectedAnnotations:
              k8s.v1.cni.cncf.io/networks: default/istio-cni
          cni:
            cniBinDir: /var/lib/cni/bin
            cniConfDir: /etc/cni/multus/net.d
            cniConfFileName: istio-cni.conf
            chained: false
      """
    When manifests are rendered
    Then it says "that is OpenShift, so it is installed for platform: "openshift""
    And it does not say "looked for in the namespace of each pod"
    And ClusterRole "istio-cni" has rules/3/resources = ["securitycontextconstraints"]
    And ClusterRole "istio-cni" has rules/3/resourceNames = ["privileged"]
    And there is a ServiceAccount "istio-cni" in namespace "kube-system"
    And there is a NetworkAttachmentDefinition "istio-cni" in namespace "default"
    And DaemonSet "istio-cni-node" has spec/template/spec/containers/install-cni/securityContext/seLinuxOptions/type = "spc_t"
    And DaemonSet "istio-cni-node" has spec/template/spec/priorityClassName = "system-node-critical"

  @mutant:user-value-dropped
  Scenario: The agent apart from a canary's control plane
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        profile: empty # Do not include other components
        components:
          cni:
            enabled: true
        values:
          cni:
            excludeNamespaces:
              - istio-system
              - kube-system
      """
    When manifests are rendered
    Then there is a DaemonSet "istio-cni-node" in namespace "istio-system"
    And its setting EXCLUDE_NAMESPACES is "istio-system,kube-system"

  @mutant:always-installed
  Scenario: A revisioned control plane installs no agent
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        revision: REVISION_NAME
        values:
          pilot:
            cni:
              enabled: true
      """
    When manifests are rendered
    Then nothing is rendered
    And it ends with exit code 0
    And it says "note: set on the control plane: pilot.cni.enabled=true"

  @mutant:always-installed
  Scenario: Nor does an older one, with its values beside spec
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        revision: REVISION_NAME
      values:
        istio_cni:
          enabled: true
      """
    When manifests are rendered
    Then nothing is rendered
    And it ends with exit code 0
    And it says "values.istio_cni.enabled: true: pods wait in istio-validation until a node agent is installed"

  @mutant:any-skew-goes
  Scenario Outline: Agent <agent> beside control plane 1.20.3 is too far away
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        tag: 1.20.3
        components:
          cni: {enabled: true, tag: <agent>}
      """
    When manifests are rendered
    Then it says "warning: node agent <agent> with control plane 1.20.3: they go together up to one minor version apart"

    Examples:
      | agent  |
      | 1.18.7 |
      | 1.22.0 |

  @mutant:unknown-key-passed
  Scenario: What is wrong is told as it is written there
    Given a mesh's document:
      """
      apiVersion: install.istio.io/v1alpha1
      kind: IstioOperator
      spec:
        components:
          cni: {enabled: true}
        values:
          cni: {repair: {repairPod: true}}
      """
    When manifests are rendered
    Then it ends with exit code 1 and says "spec.values.cni.repair.repairPod: true: there is no such value; did you mean repair.repairPods?"
