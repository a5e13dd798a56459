@real-kernel @install-cni
Feature: What root is denied is told of with path, cause and remedy, and installed once it is not (istio-53558; field S25)
  SELinux denies to root what every mode allows, and a policy of the cluster may take the capability away that overrides modes. The agent stays,
  is not ready, and needs no restart.

  @immutable @mutant:denial-unexplained
  Scenario Outline: The <which> directory is denied at the start, whatever root may
    Given the <which> directory is immutable
    When the node agent is deployed
    Then the node agent is not ready: "<tried>: Operation not permitted"
    And the node agent is not ready: "lsattr -d; chattr -i ends that"
    And the node agent is not ready: "SELinux: ausearch -m avc"
    And the node agent is not ready: "seLinuxOptions.type=spc_t"
    And the node agent runs since its start
    And the conflist "10-lab.conflist" is as it was
    When the <which> directory is open again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the node agent runs since its start

    Examples:
      | which  | tried                                              |
      | CNI    | write /host/etc/cni/net.d/10-lab.conflist          |
      | binary | write /host/opt/cni/bin/istio-cni                  |
      | run    | write /var/run/istio-cni/istio-cni-kubeconfig      |
      | run    | listen at /var/run/istio-cni/agent.sock            |

  @immutable @mutant:error-ends @mutant:readiness-believed
  Scenario: It is denied when something has to be healed
    Given the node agent is ready
    When the CNI directory is immutable
    And somebody restores "10-lab.conflist" in place
    Then the node agent is not ready: "write /host/etc/cni/net.d/10-lab.conflist: Operation not permitted"
    And the node agent runs since its start
    When the CNI directory is open again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the node agent runs since its start

  @mutant:denial-unexplained
  Scenario: The mode denies it, because a capability was taken from the pod
    Given the node agent's container lacks "DAC_OVERRIDE"
    And the CNI directory is closed by its mode
    When the node agent is deployed
    Then the node agent is not ready: "list /host/etc/cni/net.d: Permission denied"
    And the node agent is not ready: "the agent lacks CAP_DAC_OVERRIDE"
    And the node agent runs since its start
    When the CNI directory is open again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"

  @mutant:denied-is-broken
  Scenario: A list that is denied is no reason to take the next one, which no runtime reads
    Given the node agent's container lacks "DAC_OVERRIDE"
    And somebody writes "20-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "other"}]}
      """
    And "10-lab.conflist" is closed by its mode
    When the node agent is deployed
    Then the node agent is not ready: "read /host/etc/cni/net.d/10-lab.conflist: Permission denied"
    And the conflist "20-other.conflist" lists "other"
    When "10-lab.conflist" is open again
    Then the node agent becomes ready within 15 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And the conflist "20-other.conflist" lists "other"

  @mutant:denied-is-unnamed
  Scenario: The binary stays where a list that is denied may name it
    Given the node's runtime is "cri-o"
    And the node agent's container lacks "DAC_OVERRIDE"
    And the node agent is ready
    When "10-lab.conflist" is closed by its mode
    And the DaemonSet is deleted
    Then the plugin's binary is on the node
