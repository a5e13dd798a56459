@real-kernel
Feature: A locked-down node is enough, or the error says which permission is missing
  Bottlerocket has no shell (istio#48746), Talos no nsenter (istio#38794), a node with SELinux denies files that root owns
  (istio#53558). The plugin needs no helper program. What it really needs and does not get is named with its path.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @fake-kernel @mutant:no-outbound-capture
  Scenario: No shell, no nsenter, no iptables, no program at all
    Given a node without a shell and without any tool
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And its rules are complete

  @mutant:no-outbound-capture
  Scenario: Nothing can be written
    Given a node whose file systems are read-only
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And its rules are complete

  @fake-kernel @mutant:success-without-rules
  Scenario: The files of pods' namespaces are denied
    Given a node that forbids "run/netns"
    Then it does not start: code 5, "netns/cni-"
    And it does not start: code 5, "ermission denied"
    And it does not start: code 5, "look for denials of a security module (SELinux"

  @fake-kernel @mutant:success-without-rules
  Scenario: Namespaces may not be entered
    Given a node that forbids to enter namespaces
    Then it does not start: code 5, "netns/cni-"
    And it does not start: code 5, "needs CAP_SYS_ADMIN"

  @fake-kernel @mutant:fail-open
  Scenario: The run directory is denied
    Given a node that forbids "run/istio-cni"
    Then it does not start: code 11, "run/istio-cni/istio-cni-kubeconfig"
    And it does not start: code 11, "look for denials of a security module (SELinux"

  @millrace @fake-kernel @mutant:agent-final
  Scenario: Only the agent's socket is denied: the API server tells
    Given the node's agent is up
    And a node that forbids "run/istio-cni/agent.sock"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And the plugin warns "agent did not help"
    And the API server was asked for pods 2 times

  @fake-kernel @mutant:remedy-untold
  Scenario: The kubeconfig is denied, and there is no agent
    Given a node that forbids "run/istio-cni/istio-cni-kubeconfig"
    Then it does not start: code 11, "run/istio-cni/istio-cni-kubeconfig"
    And it does not start: code 11, "look for denials of a security module (SELinux"

  @fake-kernel @mutant:log-demanded
  Scenario: The log cannot be written
    Given a node that forbids "run/istio-cni/istio-cni.log"
    And a node that forbids "run/istio-cni/log.sock"
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And its rules are complete
