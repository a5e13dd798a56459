@real-kernel @install-cni @long
Feature: A change from the primary's list to a file of our own leaves no node unredirected
  The settings of a mode go with the pod's volumes. The ConfigMap has the new ones before the DaemonSet rolls, for minutes on a large
  cluster: an agent with the former volumes keeps to the former mode, and says so.

  @mutant:mode-followed-live
  Scenario: The ConfigMap comes first, then the DaemonSet rolls
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When its ConfigMap is that of "chained=false, cniConfFileName=istio-cni.conf"
    Then an event "SettingRefused" says "CHAINED_CNI_PLUGIN="false" from the ConfigMap is not applied"
    And an event "SettingRefused" says "it takes effect with the rollout"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    When "cart" starts
    Then TCP from "cart" to "outside" port 8080 passes 15001
    When the chart is applied again with "chained=false, cniConfFileName=istio-cni.conf"
    Then another pod of the node agent is ready within 40 s
    And our entry in "istio-cni.conf" has "cniVersion" = "0.3.1"
    And the conflist "10-lab.conflist" lists "lab-net" within 5000 ms
    And exposure of pod "cart" was 0

  @mutant:mode-followed-live
  Scenario: An agent that is started again with its former volumes keeps to its mode
    Given the node agent is ready
    When its ConfigMap is that of "chained=false, cniConfFileName=istio-cni.conf"
    And the node agent is killed
    Then an event "SettingRefused" says "CHAINED_CNI_PLUGIN="false" from the ConfigMap is not applied"
    And the node agent becomes ready within 20 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the configuration "istio-cni.conf" is not there for 2 s
