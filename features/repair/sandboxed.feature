@real-kernel @install-cni @millrace
Feature: A pod in a guest is never called redirected
  With Kata Containers and gVisor the packets of an application go from its guest's device to the pod's interface, below netfilter. Rules in the pod's
  namespace are right and never met: a probe that is sent in the namespace meets them all the same (istio-58913; field F3).

  @mutant:sandbox-unrecognised
  Scenario: It came up unredirected, and is not repaired
    Given a node without the plugin
    And pod "cart" of the mesh
    And its runtime class is "kata-qemu"
    And it runs
    When the node agent is deployed
    Then the node agent tells of it: SandboxedRuntime, "runtime class kata-qemu runs this pod in a guest"
    And its metrics have "millrace_sandboxed_pods 1"
    And its metrics have "millrace_unredirected_pods 0"
    And the node agent tells of it no RepairedBrokenPod for 3 s
    And the node agent tells of it no UnredirectedPod for 1 s
    And the node agent tells of it no AlreadyRedirected for 1 s
    And its namespace holds no rule

  @mutant:sandbox-unrecognised
  Scenario: It starts with its rules, as with upstream's plugin, and with an event
    Given the node agent is ready
    And pod "cart" of the mesh
    And its runtime class is "kata-qemu"
    And it runs
    Then its rules are complete
    And the node agent tells of it: SandboxedRuntime, "let the init container istio-init write the rules in the guest"
    And the node agent says "the pod's packets meet no rules"

  @mutant:sandbox-unrecognised
  Scenario: It does not start where the operator refuses such pods
    Given the node agent's setting "MILLRACE_SANDBOXED_RUNTIMES" is "refuse"
    And the node agent is ready
    And pod "cart" of the mesh
    And its runtime class is "kata-qemu"
    Then it does not start: code 999, "pods of sandboxed runtimes are refused"
