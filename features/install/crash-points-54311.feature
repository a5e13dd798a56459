@real-kernel @fake-kernel @install-cni @busy
Feature: An agent that is killed leaves the old state or the new one, never half of it (istio-54311; field S28)
  Nodes run out of memory and lose power. Whichever call was the agent's last, runtimes find a whole network, and a plugin that it names is there.
  What a plugin leaves that is killed during an ADD is told in backend/crash.

  Background:
    Given a node without the plugin
    And the node agent is on the host's network

  @mutant:copied-in-place
  Scenario: It is killed while it installs
    Then an installation that is killed before any change of a file leaves the old network or the new one
    When the node agent is deployed
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the CNI directory holds "10-lab.conflist"

  @mutant:binary-removed-first
  Scenario: It is killed while it takes everything back
    Then a removal that is killed before any change of a file leaves the old network or the new one
    When install-cni --purge is run on the node
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node
