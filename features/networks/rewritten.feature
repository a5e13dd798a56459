@real-kernel @install-cni
Feature: The owner of a list writes it at the worst moment (field 4; S8)
  Agents of networks start with ours and write their lists when they do, after a change of their settings, or twice a month. Whatever is written
  last by its owner counts, and our entry comes back into it.

  @mutant:watch-blind
  Scenario Outline: Right after our first write, by <network>
    Given the node's network is that of "<network>"
    When the node agent is deployed
    And somebody restores "<file>" 1 times, as soon as it is changed
    Then the conflist "<file>" lists "<plugins>, istio-cni" within 2000 ms
    And the node agent becomes ready within 10 s

    Examples:
      | network | file                | plugins                      |
      | calico  | 10-calico.conflist  | calico, portmap, bandwidth   |
      | flannel | 10-flannel.conflist | flannel, portmap             |
      | cilium  | 05-cilium.conflist  | cilium-cni                   |
      | aws-vpc | 10-aws.conflist     | aws-cni, egress-cni, portmap |
      | azure   | 10-azure.conflist   | azure-vnet, portmap          |
      | gke     | 10-gke-ptp.conflist | ptp, portmap, cilium-cni     |

  @millrace @mutant:owner-overwritten
  Scenario: Between our read and our write
    Plugins are asked for their versions where the list's is to be raised: that is when the owner writes the list, and ours is made of a former one.

    Given the owner of "10-lab.conflist" appends the plugin "bandwidth" when its plugins are asked for their versions
    And the node agent's setting "MILLRACE_RAISE_CNI_VERSION" is "true"
    And the CNI directory is watched
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, list-owner, bandwidth, istio-cni"
    And whenever it was read it held a whole network
