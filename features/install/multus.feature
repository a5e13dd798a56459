@real-kernel @install-cni
Feature: Multus is the first configuration and hands on (field S16)
  Runtimes read Multus' file first. It delegates: to the file that CNI_CONF_NAME names, or, where networks are chosen by annotation, to a
  file of our own in a directory of Multus'.

  @mutant:multus-unknown
  Scenario: Our entry is in the file that it hands on to
    Given somebody writes "00-multus.conf":
      """
      {"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus",
       "clusterNetwork": "/etc/cni/net.d/10-lab.conflist", "capabilities": {"io.kubernetes.cri.pod-annotations": true}}
      """
    And the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    And the node agent is on the host's network
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:standalone-chained
  Scenario: A file of our own in its directory
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the node agent's setting "CHAINED_CNI_PLUGIN" is "false"
    And the node agent's setting "CNI_CONF_NAME" is "istio-cni.conf"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And "/etc/cni/multus/net.d/istio-cni.conf" of the node contains "'type': 'istio-cni'"
    And the conflist "10-lab.conflist" is as it was
    When the DaemonSet is deleted
    Then "/etc/cni/multus/net.d/istio-cni.conf" of the node is not there

  @mutant:binary-not-kept
  Scenario: A pod that Multus attached outlives the agent, and can still be deleted
    Given somebody writes "00-multus.conflist":
      """
      {"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": [
        {"type": "multus", "clusterNetwork": "/etc/cni/net.d/10-lab.conflist", "confDir": "/etc/cni/multus/net.d",
         "capabilities": {"io.kubernetes.cri.pod-annotations": true}}
      ]}
      """
    And the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its annotation "k8s.v1.cni.cncf.io/networks" is "default/istio-cni"
    And it runs
    Then TCP from "cart" to "outside" port 8080 passes 15001
    When the DaemonSet is deleted
    Then "/etc/cni/multus/net.d/istio-cni.conf" of the node is not there
    And the plugin's binary is on the node
    When it is deleted
    Then its last sandbox was taken down
    And the plugin's last DEL succeeded

  @mutant:binary-always-kept
  Scenario: What Multus left of a pod that is long gone keeps nothing
    Given the node agent is ready
    And Multus left what it attached to a pod whose sandbox is gone
    When the DaemonSet is deleted
    Then nothing of ours is left on the node
