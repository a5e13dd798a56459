@real-kernel @install-cni
Feature: A file of our own, for Multus, never takes the place of another plugin's (installer fault 2)

  Background:
    Given the node agent's setting "CHAINED_CNI_PLUGIN" is "false"

  @mutant:single-left
  Scenario: It is written beside the primary's, and goes with the agent
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And our entry in "YYY-istio-cni.conf" has "cniVersion" = "0.3.1"
    And the conflist "10-lab.conflist" is as it was
    When the DaemonSet is deleted
    Then nothing of ours is left on the node

  @mutant:foreign-overwritten
  Scenario: A name that is another plugin's is refused
    Given the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    When the node agent is deployed
    Then the node agent is not ready: "10-lab.conflist is not ours to overwrite"
    And the conflist "10-lab.conflist" is as it was
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was

  @mutant:ours-forgotten
  Scenario: After a crash it is known as ours
    Given the node agent is ready
    When the node agent is killed
    And its ConfigMap sets "EXCLUDE_NAMESPACES" to "builds"
    Then our entry in "YYY-istio-cni.conf" has "exclude_namespaces" = ["builds"]

  @mutant:others-forgotten
  Scenario: An entry that was chained goes once the file stands
    Given the node agent's setting "CHAINED_CNI_PLUGIN" is "true"
    And the node agent is ready
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    When the chart is applied again with "chained=false"
    Then another pod of the node agent is ready within 40 s
    And our entry in "YYY-istio-cni.conf" has "cniVersion" = "0.3.1"
    And the conflist "10-lab.conflist" lists "lab-net" within 5000 ms
    And the conflist "10-lab.conflist" is as it was

  @mutant:alone-left
  Scenario: The file goes once the entry is chained again
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    Then our entry in "YYY-istio-cni.conf" has "cniVersion" = "0.3.1"
    When the chart is applied again with "chained=true"
    Then another pod of the node agent is ready within 40 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the configuration "YYY-istio-cni.conf" is not there for 2 s
    When "cart" starts
    Then TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:mode-unread
  Scenario: The group may read it as soon as that is wanted
    Given the node agent is ready
    When its ConfigMap sets "CNI_CONF_GROUP_READ" to "true"
    Then the configuration "YYY-istio-cni.conf" has the mode 640
