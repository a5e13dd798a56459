@real-kernel @install-cni
Feature: What others do to the CNI directory is healed (field S8 and S26; installer faults 7, 8 and 10)
  The primary CNI rewrites its file when it starts, and some do it all the time. The agent is ready only while runtimes get to our entry.

  Background:
    Given the node agent is ready

  Scenario: The primary writes its list again
    When somebody restores "10-lab.conflist"
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 1000 ms

  Scenario: The list is renamed
    When somebody renames "10-lab.conflist" to "00-lab.conflist"
    And somebody restores "10-lab.conflist"
    Then the conflist "00-lab.conflist" lists "lab-net, istio-cni" within 1000 ms

  Scenario: The list goes and comes back
    When somebody removes "10-lab.conflist"
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conflist"
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  Scenario: A broken list is left alone until it is corrected
    When somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name":
      """
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conflist"
    Then the node agent becomes ready within 10 s

  Scenario: Somebody who does it again and again is told how to stop, and met less often
    When somebody restores "10-lab.conflist" 5 times, as soon as it is changed
    Then the node agent says "somebody else keeps removing our entry from 10-lab.conflist"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms

  Scenario: The directory is deleted and made again
    When the CNI directory is deleted and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And the node agent becomes ready within 20 s
