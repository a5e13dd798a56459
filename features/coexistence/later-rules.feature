@real-kernel @install-cni @millrace
Feature: Rules of another program that come before the proxy's are named
  Of nat chains with one priority the kernel runs the one first that was registered last. A program that writes its own after the pod's ADD, as KubeVirt
  does for the ports of a guest, takes inbound packets past the proxy, though every rule of the proxy's is in its place.

  Background:
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it runs

  @mutant:later-chains-unseen
  Scenario: A port that a later chain takes
    When another program writes nat rules for its TCP port 8080
    Then TCP from "outside" to "cart" port 8080 is direct
    And TCP from "outside" to "cart" port 9090 passes 15006
    When "cart" is meant
    And it is diagnosed in the node agent's container
    Then it differs only in this: "is somebody else's and takes packets past the proxy"
    When the node agent is killed
    Then the node agent tells of it: UnredirectedPod, "is somebody else's and takes packets past the proxy"
    And its metrics have "millrace_unredirected_pods 1"
