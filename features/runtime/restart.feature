@real-kernel @install-cni
Feature: Runtime and kubelet are restarted under running pods
  The runtime reads its configuration again. CRI-O calls GC with the pods that it has, and CHECK of each; so it does after each ADD.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:gc-collects
  Scenario: With CRI-O running pods stay redirected, and later ones are
    Given the node's runtime is "cri-o"
    And the node's network speaks CNI "1.1.0"
    And the node agent is ready
    And exposure of pod "cart" is measured
    And it runs
    When the node's runtime is restarted
    And the node's kubelet is restarted
    Then the plugin's last GC succeeded
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the node is ready
    And exposure of pod "cart" was 0
    When it is deleted
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:check-alarmed
  Scenario: CRI-O starts a pod whose CHECK succeeds
    Given the node's runtime is "cri-o"
    And the node agent is ready
    When "cart" starts
    Then it runs
    And the plugin's last CHECK succeeded

  @mutant:gc-asks-agent
  Scenario: On a rebooted node CRI-O calls GC before there is an agent
    Its cache still has the pods that ended with the machine: DEL of each, then GC.

    Given the node's runtime is "cri-o"
    And the node's network speaks CNI "1.1.0"
    And the node agent is ready
    And it runs
    When the node reboots
    Then the plugin's last GC succeeded
    And the plugin's last DEL succeeded
    And it comes up within 60 s
    And the node agent becomes ready within 30 s
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:orphan-stays
  Scenario Outline: A restart is the way out for <runtime>, which lost sight of a directory that was made again
    The agent has to be started again to see the new directory, and its kubelet does not do that without a network.

    Given the node's runtime is "<runtime>"
    And the node agent is ready
    And its log may have the error "what took its place cannot be seen from here"
    When the CNI directory is deleted and made again
    Then the node is not ready: "Network plugin returns error"
    When the node's runtime is restarted
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And the runtime has loaded "lab-net, istio-cni" within 1000 ms
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | runtime        |
      | containerd-1.6 |
      | cri-o          |

  @millrace @mutant:orphan-stays
  Scenario Outline: <runtime> stays blind to a directory that was made again, and an agent on the host's network says that it is not at fault (field S26)
    Given the node's runtime is "<runtime>"
    And the node agent is on the host's network
    And the node agent is ready
    And its log may have the error "what took its place cannot be seen from here"
    When the CNI directory is deleted and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And its status finds nothing wrong
    And the runtime has loaded "" within 1000 ms
    And the node is not ready: "Network plugin returns error"
    When the node's runtime is restarted
    Then the node is ready
    And the runtime has loaded "lab-net, istio-cni" within 1000 ms

    Examples:
      | runtime        |
      | containerd-1.6 |
      | cri-o          |

  @millrace @mutant:orphan-stays
  Scenario: cri-dockerd looks again by itself
    Given the node's runtime is "cri-dockerd"
    And the node agent is on the host's network
    And the node agent is ready
    And its log may have the error "what took its place cannot be seen from here"
    When the CNI directory is deleted and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And its status finds nothing wrong
    And the runtime has loaded "lab-net, istio-cni" within 20000 ms
    And the node is ready
