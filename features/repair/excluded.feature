@real-kernel @install-cni @long
Feature: Namespaces that the plugin leaves alone are left alone by repair
  What would get no rules when it starts gets none afterwards, whatever its validation says.

  @mutant:excluded-repaired
  Scenario: A pod of an excluded namespace is not touched while another one is repaired
    Given a node without the plugin
    And the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system,default"
    And pod "legacy" of the mesh
    And it is in namespace "default"
    And an init container checks its rules
    And it came up unredirected
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured
    And it came up unredirected
    When the node agent is deployed
    Then it comes up within 60 s
    And the node agent tells of it: RepairedBrokenPod
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 1"
    And "legacy" is meant
    And the node agent tells of it: UnrepairableBrokenPod, "namespace default is excluded, so neither the plugin nor the agent writes rules"
    And the node agent tells of it no RepairedBrokenPod for 3 s
    And the node agent tells of it no RepairFailed for 1 s
    And exposure of pod "cart" was 0

  @mutant:template-unread
  Scenario: Nor is one that only the template of our entry excludes
    Given a node without the plugin
    And the node agent's setting "EXCLUDE_NAMESPACES" is "kube-system"
    And the node agent's setting "CNI_NETWORK_CONFIG" is:
      """
      {"type": "istio-cni", "exclude_namespaces": ["default"]}
      """
    And pod "legacy" of the mesh
    And it is in namespace "default"
    And an init container checks its rules
    And it came up unredirected
    And pod "cart" of the mesh
    And an init container checks its rules
    And it came up unredirected
    When the node agent is deployed
    Then it comes up within 60 s
    And the node agent tells of it: RepairedBrokenPod
    And "legacy" is meant
    And the node agent tells of it no RepairedBrokenPod for 3 s
