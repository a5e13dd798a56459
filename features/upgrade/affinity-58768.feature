@real-kernel @install-cni
Feature: A node that the DaemonSet no longer wants is uninstalled (istio-58768; field S13)
  The DaemonSet is there and its pod on this node goes: that is no upgrade, because no other agent will come.

  @mutant:affinity-ignored
  Scenario: The DaemonSet's affinity leaves the node out
    Given the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the DaemonSet's affinity leaves the node out
    Then the conflist "10-lab.conflist" is as it was
    And exposure of pod "cart" was 0

  @mutant:affinity-ignored
  Scenario: A new label of the node keeps the DaemonSet's pod away
    Given the chart's value "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms" is "[{matchExpressions: [{key: kept-free, operator: DoesNotExist}]}]"
    And the node agent is ready
    When the node's label "kept-free" is "yes"
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node
