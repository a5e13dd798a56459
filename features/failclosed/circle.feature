@real-kernel @install-cni @millrace @long
Feature: A cluster whose nodes were all turned off finds its way back by itself
  A kubelet that shuts down gracefully ends the agent's pod for good: after the boot a new one has to be admitted. A policy agent refuses every pod while its own
  pods do not run, and they wait for the plugin, whose agent is not there. The runtime knows the annotations of each pod: one that was never injected waits for nobody.

  @mutant:annotations-unread
  Scenario: The policy agent's pods start without agent and credentials, and then the node agent's is admitted
    Given the node agent is ready
    And no pod is admitted without a policy agent, whose own pods are on the pods' network
    And pod "cart" of the mesh
    And pod "outside" outside the mesh
    When all nodes shut down, and are turned on again
    Then the policy agent comes up within 30 s
    And the node agent becomes ready within 60 s
    When "cart" starts
    Then it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:annotations-always
  Scenario: Where the runtime's word is not taken the circle is closed, and cleaning the node opens it
    Given the node agent's setting "MILLRACE_RUNTIME_ANNOTATIONS" is "false"
    And the agent's image is "registry.example.com/mesh/install-cni:lab"
    And the node agent is ready
    And no pod is admitted without a policy agent, whose own pods are on the pods' network
    When all nodes shut down, and are turned on again
    Then the policy agent's pods do not start: cannot tell whether the pod needs redirection
    When manifests are rendered with "--purge"
    And what was rendered is applied
    Then the policy agent comes up within 60 s
    And the node agent becomes ready within 60 s
