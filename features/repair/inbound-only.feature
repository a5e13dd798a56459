@real-kernel @install-cni @long
Feature: A pod that redirects inbound traffic only is proven repaired as well
  None of its own packets is redirected but the proxy's way to the app, so the probe takes the proxy's user for its one packet.

  @mutant:capability-too-few
  Scenario: The probe is a packet of the proxy's user
    Given a node without the plugin
    And pod "cart" of the mesh
    And its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is ""
    And an init container checks its rules
    And exposure of pod "cart" is measured, inbound alone
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod
    And the node agent tells of it no RepairUnproven for 3 s
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 1"
    And exposure of pod "cart" was 0
