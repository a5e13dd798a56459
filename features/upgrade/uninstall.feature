@real-kernel @install-cni @long
Feature: An uninstall leaves the node as it was, and nothing stuck (istio-59846; field S12 and S24)
  The entry goes before the credentials and the binary, so that no configuration names what is not there. The binary stays as long as the
  runtime has pods that it set up with it: some runtimes call it once more for each.

  Background:
    Given the node agent is ready
    And the node agent follows the node's pods

  @mutant:binary-not-kept
  Scenario: Pods of the mesh outlive the agent, and can still be deleted
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was
    And there is no pod of the node agent
    And the plugin's binary is on the node
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
    When it is deleted
    And install-cni --purge is run on the node
    Then nothing of ours is left on the node

  @mutant:deleting-daemonset-kept
  Scenario: The DaemonSet waits for its pods before it goes
    When the DaemonSet is deleted in the foreground
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:gone-keeps
  Scenario: The DaemonSet is gone before its pods are
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" is as it was
    And nothing of ours is left on the node

  @mutant:gone-keeps
  Scenario: Nothing gets stuck of pods that start and end meanwhile
    Given pod "cart" of the mesh
    When the DaemonSet is deleted while pods like it start and end
    Then each of them runs in the end, and can be deleted
    And the conflist "10-lab.conflist" is as it was
    When install-cni --purge is run on the node
    Then nothing of ours is left on the node

  @mutant:gone-keeps
  Scenario: An agent that was set up with its own plugin takes that back as well
    Given what is installed is remembered
    When the node agent's pod is evicted
    Then another pod of the node agent is ready within 40 s
    When the DaemonSet is deleted
    Then there is no pod of the node agent
    And the conflist "10-lab.conflist" is as it was
    And the plugin's last DEL succeeded
    When install-cni --purge is run on the node
    Then nothing of ours is left on the node

  @mutant:gone-keeps
  Scenario: Pods start again as if we had never been there
    Given pod "web" of the mesh
    When the DaemonSet is deleted
    Then it runs
    And its namespace holds no rule

  Scenario Outline: All of it is deleted <order>, by an operator who has just looked at it
    When the node agent's token is used to list pods ""
    And the installation is deleted <order>
    Then nothing of ours is left on any node
    And the conflist "10-lab.conflist" is as it was
    And a pod of the mesh and one outside of it start on every node

    @mutant:gone-keeps
    Examples:
      | order              |
      | as it was rendered |

    @mutant:deletion-unheard
    Examples:
      | order              |
      | in reverse         |
      | as Helm does it    |

    @mutant:deleting-daemonset-kept
    Examples:
      | order              |
      | in the foreground  |

    @mutant:namespace-outlived
    Examples:
      | order              |
      | with its namespace |

    @mutant:gone-keeps
    Examples:
      | order                  |
      | by its DaemonSet alone |

  Scenario Outline: All of it is deleted <order>, after nothing happened for a while
    The API server remembers for 10 s whom it let in. Whose account is deleted is told 403 until then, and 401 afterwards.

    When nobody uses the node agent's token for 10 s
    And the installation is deleted <order>
    Then nothing of ours is left on any node
    And the conflist "10-lab.conflist" is as it was
    And a pod of the mesh and one outside of it start on every node

    @mutant:deletion-unheard
    Examples:
      | order              |
      | as it was rendered |
      | in reverse         |
      | as Helm does it    |

    @mutant:deleting-daemonset-kept
    Examples:
      | order              |
      | in the foreground  |

    @mutant:namespace-outlived
    Examples:
      | order              |
      | with its namespace |

    @mutant:gone-keeps
    Examples:
      | order                  |
      | by its DaemonSet alone |

  @mutant:purge-looks-below-host
  Scenario: A node that no agent cleaned is cleaned by hand, from the node itself
    When the API server falls silent on a watch of daemonsets.apps
    And the API server answers 503 on a get of daemonsets.apps
    And the DaemonSet is deleted
    Then the plugin's binary is on the node
    When install-cni --purge is run on the node itself
    Then nothing of ours is left on the node
