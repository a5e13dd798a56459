@real-kernel @fake-kernel @install-cni
Feature: A node that loses power has the old network or the new one (istio-54311)
  What was not synced is gone: the content of a file, and a name in its directory. A list that is empty, or that names a plugin which is not there,
  keeps every pod of the node from starting, the agent's among them.

  Background:
    Given a node without the plugin
    And the node agent is on the host's network

  @mutant:unsynced-file @mutant:unsynced-directory
  Scenario: While the agent installs
    Then an installation that loses power at any moment leaves the old network or the new one

  @mutant:unsynced-directory
  Scenario: While the agent takes everything back
    Then a removal that loses power at any moment leaves the old network or the new one
