@real-kernel @install-cni @long
Feature: What others do to the CNI directory is healed (field S8 and S26; installer faults 7, 8 and 10)
  The primary CNI rewrites its file when it starts, and some do it all the time. The agent is ready only while runtimes get to our entry.

  Background:
    Given the node agent is ready

  @mutant:watch-blind
  Scenario: The primary writes its list again
    When somebody restores "10-lab.conflist"
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 1000 ms

  @mutant:watch-blind
  Scenario: Another list takes its place, and is read first
    Given pods may be left that nobody can delete: "failed to find plugin "other""
    When somebody renames "10-lab.conflist" to "20-lab.conflist"
    And somebody writes "05-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "other"}]}
      """
    Then the conflist "05-other.conflist" lists "other, istio-cni" within 1000 ms

  @mutant:foreign-list-taken
  Scenario: A .conf of its name comes beside the list, and both stay
    Given pods may be left that nobody can delete: "failed to find plugin "other""
    When somebody writes "10-lab.conf":
      """
      {"cniVersion": "1.0.0", "name": "lab", "type": "other"}
      """
    Then the conflist "10-lab-istio-cni.conflist" lists "other, istio-cni" within 1000 ms
    And the configuration "10-lab.conf" contains "'type': 'other'"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:readiness-believed
  Scenario: The list goes and comes back
    When somebody removes "10-lab.conflist"
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conflist"
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:readiness-believed
  Scenario: A broken list is left alone until it is corrected
    When somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name":
      """
    Then the node agent is not ready: "no runtime would find a valid network configuration"
    When somebody restores "10-lab.conflist"
    Then the node agent becomes ready within 10 s

  @mutant:fight-untold
  Scenario: Somebody who does it again and again is told how to stop, and met less often
    When somebody restores "10-lab.conflist" 6 times, as soon as it is changed
    Then an event "CniConfigFight" says "somebody else keeps removing our entry from 10-lab.conflist"
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms

  @mutant:binary-unfought
  Scenario: Another installer of the plugin is told how to stop, and met less often
    When somebody replaces the plugin's binary 6 times, as soon as it is the node agent's
    Then an event "CniConfigFight" says "somebody else keeps replacing the plugin's binary"
    And the plugin's binary is the node agent's

  @mutant:binary-through-link
  Scenario: A link under the plugin's name is replaced, and what it leads to is not
    When the plugin's binary becomes a link to another program
    Then the plugin's binary is a file again, and that program is as it was
    And the plugin's binary is the node agent's

  @millrace @mutant:own-writes-heal
  Scenario: What the settings change is no heal, and no fight however often
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "a"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["a"] within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "b"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["b"] within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "c"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["c"] within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "d"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["d"] within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "e"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["e"] within 1000 ms
    When its ConfigMap sets "EXCLUDE_NAMESPACES" to "f"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["f"] within 1000 ms
    And its metrics have "millrace_heal_seconds_count 0"
    And its metrics have "millrace_conflist_fights_total 0"

  @mutant:orphan-stays
  Scenario: The directory is deleted and made again
    Given its log may have the error "what took its place cannot be seen from here"
    When the CNI directory is deleted and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And the node agent becomes ready within 20 s
    And the runtime has loaded "lab-net, istio-cni" within 5000 ms

  @mutant:moved-stays
  Scenario: The directory is moved away and made again
    Given its log may have the error "what took its place cannot be seen from here"
    When the CNI directory is moved away and made again
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 20000 ms
    And the node agent becomes ready within 20 s

  @mutant:credentials-held
  Scenario: Credentials follow while a fight is waited out (installer fault 9)
    When somebody restores "10-lab.conflist" 8 times, as soon as it is changed
    And the kubelet renews the node agent's token
    Then the kubeconfig holds the node agent's token within 900 ms

  @mutant:watches-leak
  Scenario: Bursts of changes leave nothing behind in the agent (installer fault 15)
    When the CNI directory changes in 10 bursts
    Given what the node agent uses is remembered
    When the CNI directory changes in 40 bursts
    Then the node agent uses no more than then
