@real-kernel @install-cni
Feature: A runtime uses the configuration that it has read (field 22)
  Between the CNI directory and a pod is the runtime's memory. containerd hears of files that are written or renamed in the directory, and of
  none that is moved there from another one; CRI-O hears of both; cri-dockerd looks every five seconds.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:moved-in
  Scenario Outline: <runtime> hears of the agent's entry
    Given the node's runtime is "<runtime>"
    And the node agent is ready
    And exposure of pod "cart" is measured
    Then the runtime has loaded "lab-net, istio-cni" within 1000 ms
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    Examples:
      | runtime        |
      | containerd-1.6 |
      | containerd-2   |

  @mutant:watch-blind
  Scenario Outline: <runtime> comes back to the agent's entry when the primary CNI has written its list again
    Given the node's runtime is "<runtime>"
    And the node agent is ready
    And exposure of pod "cart" is measured
    When somebody restores "10-lab.conflist"
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 1000 ms
    And the runtime has loaded "lab-net, istio-cni" within 1000 ms
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    Examples:
      | runtime     |
      | cri-o       |
      | cri-dockerd |

  @mutant:orphan-stays
  Scenario: The directory is deleted and made again
    containerd 1.6 looks for it every five seconds; 2.4 ends, and its unit starts it again five seconds later. Others never get over it, until they are restarted.

    Given the node's runtime is "containerd-2"
    And the node agent is ready
    And exposure of pod "cart" is measured
    And its log may have the error "what took its place cannot be seen from here"
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
    When the CNI directory is deleted and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
