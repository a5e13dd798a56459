@real-kernel @install-cni
Feature: A node reboots without a drain (istio-60882; field S3)
  What is below /run is gone, with every namespace and process; the network's configuration, the binaries and the runtime's cache stay. All
  pods start at once, the agent's own among them.

  Background:
    Given 2 nodes
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs

  @mutant:own-pod-asked
  Scenario: Pods wait for the agent, and no pod of the mesh runs unredirected
    When the node reboots
    Then the node agent becomes ready within 30 s
    And it comes up within 60 s
    And its last sandbox was taken down
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
