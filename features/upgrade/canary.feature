@real-kernel @install-cni
Feature: Two revisions of a mesh share a node (field S11)
  Control planes are upgraded as canaries, with two revisions side by side, each injecting pods of its own kind; the node agent is one for both. One of
  each version may be there for as long as the canary takes.

  @mutant:claim-unread
  Scenario: Pods of both are redirected, with the agent of the one, of both, and of the one again
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "stable" of the mesh
    And its label "istio.io/rev" is "1-30"
    And exposure of pod "stable" is measured
    And pod "canary" of the mesh
    And its label "istio.io/rev" is "1-31"
    And its proxy is a native sidecar
    Then TCP from "stable" to "outside" port 8080 passes 15001
    When a node agent of another version starts beside it
    Then the node agent says "another agent of this node started later"
    And TCP from "canary" to "outside" port 8080 passes 15001
    When the other version's pod is deleted
    Then the node agent says "the other agent ended"
    And the plugin's binary is the node agent's
    Given pod "later" of the mesh
    And its label "istio.io/rev" is "1-31"
    Then TCP from "later" to "outside" port 8080 passes 15001
    And exposure of pod "stable" was 0
