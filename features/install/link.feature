@real-kernel @install-cni
Feature: A configuration that is a symbolic link stays one (installer fault 14)
  Who keeps the network's configuration elsewhere reads and writes it there. A link that became a file would be a second truth.

  @mutant:link-replaced
  Scenario: The file behind it gets our entry, and loses it again
    Given "10-lab.conflist" is a symbolic link to "lab.data"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the conflist "lab.data" lists "lab-net, istio-cni"
    And "10-lab.conflist" is a symbolic link
    When the DaemonSet is deleted
    Then "10-lab.conflist" is a symbolic link
    And the conflist "lab.data" is as it was, byte for byte

  @mutant:links-unfollowed
  Scenario: What somebody does to the file behind it is healed, wherever that is
    Given "10-lab.conflist" is a symbolic link to "elsewhere/lab.data"
    And the node agent is ready
    When somebody restores "10-lab.conflist" in place
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 1000 ms
    When somebody writes "elsewhere/lab.data":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "other"}]}
      """
    Then the conflist "10-lab.conflist" lists "other, istio-cni" within 1000 ms
    And "10-lab.conflist" is a symbolic link

  @mutant:lost-link-is-broken
  Scenario: A link that only runtimes may be able to follow is not passed over
    Given "05-other.conflist" is a symbolic link to "/run/elsewhere/other.conflist", which is not there
    When the node agent is deployed
    Then the node agent is not ready: "it is a link to /run/elsewhere/other.conflist"
    And the conflist "10-lab.conflist" is as it was
    When somebody removes "05-other.conflist"
    Then the node agent becomes ready within 15 s
