@real-kernel @install-cni
Feature: A pod is taken down with the configuration that its runtime sees fit
  containerd and cri-dockerd call DEL with what they have loaded, whichever plugins a pod was set up with; CRI-O with what it remembers of
  the pod. containerd and cri-dockerd call it again until it succeeds; CRI-O reports the failure and leaves what is left.

  @mutant:del-fails
  Scenario Outline: <runtime> takes a pod down that is older than the node agent
    Given the node's runtime is "<runtime>"
    And a node without the plugin
    And pod "web" outside the mesh
    And it runs
    And the node agent is ready
    Then the runtime has loaded "lab-net, istio-cni" within 1000 ms
    When somebody deletes it
    Then it is gone within 10 s
    And the plugin's last DEL succeeded

    Examples:
      | runtime        |
      | containerd-1.6 |
      | containerd-2   |
      | cri-dockerd    |

  @mutant:binary-not-kept
  Scenario: CRI-O takes a pod down that outlived the node agent
    Given the node's runtime is "cri-o"
    And pod "cart" of the mesh
    And the node agent is ready
    And exposure of pod "cart" is measured
    And it runs
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was
    And exposure of pod "cart" was 0
    When somebody deletes it
    Then it is gone within 10 s
    And the plugin's last DEL succeeded
