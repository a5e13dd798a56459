@real-kernel @install-cni @long
Feature: After a reboot the agent's own pod starts first (istio-60668)
  The configuration outlives the reboot and names a plugin that can ask nobody: sockets and credentials went with /run. The plugin lets the
  agent's own pod pass by its name, and every other one waits.

  @mutant:own-pod-asked
  Scenario: The agent comes up through its own plugin, and then the others do
    Given 2 nodes
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the API server falls silent on a watch of daemonsets.apps
    And the API server answers 503 on a get of daemonsets.apps
    And the DaemonSet is deleted
    And the node reboots
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    When "cart" starts
    Then it does not start: code 11, "istio-cni-kubeconfig"
    When the API server is well again
    And the node agent is deployed
    Then the node agent becomes ready within 30 s
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

  @mutant:own-pod-asked
  Scenario: Until then every other pod waits, although the API server would answer
    Given 2 nodes
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the API server falls silent on a watch of daemonsets.apps
    And the API server answers 503 on a get of daemonsets.apps
    And the DaemonSet is deleted
    And the API server is well again
    And the node reboots
    And "cart" starts
    Then it does not start: code 11, "istio-cni-kubeconfig"
    When the node agent is deployed
    Then the node agent becomes ready within 30 s
    And it comes up within 60 s
    And exposure of pod "cart" was 0
