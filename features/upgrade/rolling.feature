@real-kernel @install-cni
Feature: An upgrade of the agent takes no redirection away (field S11)
  While one agent goes and the next one comes, everything that the first has installed stays where it is. The plugin asks the API server
  itself meanwhile; if it cannot, the pod waits. No pod ever runs without rules.

  Background:
    Given pod "outside" outside the mesh
    And the node agent is ready
    And what is installed is remembered

  @mutant:wanted-uninstalls
  Scenario: The DaemonSet's template changes, and nothing on the node does
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured, inbound as well
    And it runs
    When the DaemonSet's template changes
    Then another pod of the node agent is ready within 40 s
    And what is installed was not touched
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And exposure of pod "cart" was 0

  @mutant:wanted-uninstalls @mutant:no-outbound-capture
  Scenario: Pods that start meanwhile are redirected, or wait until they are
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the DaemonSet rolls while pods like it start
    Then each of them is redirected, at once or after a refusal with code 11
    And what is installed was not touched
    And exposure of pod "cart" was 0

  @mutant:wanted-uninstalls
  Scenario: A drain evicts the agent's pod, and its DaemonSet is still there
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the node agent's pod is evicted
    Then what is installed was not touched
    And another pod of the node agent is ready within 40 s
    And exposure of pod "cart" was 0

  @mutant:copied-at-start
  Scenario: The agent is killed and begins where it was
    Given pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the node agent is killed
    Then its metrics have "istio_cni_install_ready 1"
    And what is installed was not touched
    And the node agent becomes ready within 20 s
    And exposure of pod "cart" was 0
