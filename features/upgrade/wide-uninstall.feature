@real-kernel @install-cni @long
Feature: An uninstall reaches every node of a large cluster (istio-59846; field S12)
  All agents are told to stop within moments, and each has to find out why before its account, its roles or its namespace are gone.
  The largest cluster has the machine for itself: an API server that is too slow is a silent one, and silence uninstalls nothing.
  An agent that has not reached it once cannot tell a revoked token from a wrong one, so each follows its node first.

  Scenario Outline: All of it is deleted <order> on <nodes> nodes
    Given <nodes> nodes
    And the node agent is ready
    And the node agent follows the node's pods
    When nobody uses the node agent's token for 10 s
    And the installation is deleted <order>
    Then nothing of ours is left on any node
    And a pod of the mesh and one outside of it start on every node

    @mutant:deletion-unheard
    Examples:
      | order              | nodes |
      | as it was rendered | 5     |
      | in reverse         | 5     |

    @serial @mutant:deletion-unheard
    Examples:
      | order           | nodes |
      | as Helm does it | 50    |

    @mutant:deleting-daemonset-kept
    Examples:
      | order             | nodes |
      | in the foreground | 5     |

    @mutant:namespace-outlived
    Examples:
      | order              | nodes |
      | with its namespace | 5     |

    @mutant:gone-keeps
    Examples:
      | order                  | nodes |
      | by its DaemonSet alone | 5     |

  @mutant:no-outbound-capture
  Scenario: Pods that run meanwhile keep their rules
    Given 5 nodes
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured every 50 ms
    And a Deployment keeps 12 pods like it
    And 12 of them run
    And the node agent follows the node's pods
    When nobody uses the node agent's token for 10 s
    And the installation is deleted as Helm does it
    Then exposure of pod "cart" was 0
