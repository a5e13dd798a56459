@real-kernel @install-cni @millrace
Feature: The agent's process has the capabilities and mounts that its mode needs, and no more
  What it does in namespaces of pods needs most of them. Where it has nothing to do there, it is a writer of files.

  Scenario Outline: Capabilities where <values>
    Given the chart's values are "<values>"
    And the node agent is ready
    Then its process has the capabilities "<capabilities>"

    @mutant:capability-too-few
    Examples:
      | values                                          | capabilities                                                            |
      | repair.enabled=true                             | DAC_OVERRIDE, NET_ADMIN, NET_RAW, SETGID, SETUID, SYS_ADMIN, SYS_PTRACE |
      | repair.repairPods=false, repair.deletePods=true | DAC_OVERRIDE, NET_ADMIN, NET_RAW, SYS_ADMIN, SYS_PTRACE                 |

    @mutant:capability-too-many
    Examples:
      | values                                          | capabilities                                                            |
      | repair.enabled=false                            | DAC_OVERRIDE                                                            |

  @mutant:cache-written
  Scenario: Mounts where pods are looked at
    Given the node agent is ready
    Then its mounts are:
      """
      /host/opt/cni/bin from /opt/cni/bin
      /host/etc/cni/net.d from /etc/cni/net.d
      /var/run/istio-cni from /var/run/istio-cni
      /host/var/lib/cni from /var/lib/cni, read-only
      /host/proc from /proc, read-only
      """

  @mutant:mount-too-many
  Scenario: Mounts where they are not
    Given the chart's value "repair.enabled" is "false"
    And the node agent is ready
    Then its mounts are:
      """
      /host/opt/cni/bin from /opt/cni/bin
      /host/etc/cni/net.d from /etc/cni/net.d
      /var/run/istio-cni from /var/run/istio-cni
      /host/var/lib/cni from /var/lib/cni, read-only
      """
