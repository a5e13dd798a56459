@real-kernel @install-cni
Feature: A list of our own repeats the primary's and follows it (istio-60882; installer fault 3)

  Background:
    Given the node agent's setting "ISTIO_OWNED_CNI_CONFIG" is "true"
    And the node agent is ready

  @mutant:owned-in-primary
  Scenario: The primary's stays as it is, also when the agent leaves
    Then the conflist "02-istio-cni.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab.conflist" is as it was, byte for byte
    When the DaemonSet is deleted
    Then nothing of ours is left on the node
    And the conflist "10-lab.conflist" is as it was

  @mutant:primary-not-followed
  Scenario: What the primary changes, ours has as well
    When somebody adds "x-more" = 1 to "10-lab.conflist"
    Then the configuration "02-istio-cni.conflist" contains "'x-more': 1"

  @mutant:others-forgotten @mutant:copies-unmarked
  Scenario: Under another name it is made of the primary's again, and the former one goes
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG_FILENAME" to "03-ours.conflist"
    Then the configuration "02-istio-cni.conflist" is not there for 2 s
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG_FILENAME" to "01-ours.conflist"
    Then the configuration "03-ours.conflist" is not there for 2 s
    And the conflist "01-ours.conflist" lists "lab-net, istio-cni"
    And the conflist "10-lab.conflist" is as it was
    When somebody adds "x-more" = 1 to "10-lab.conflist"
    Then the configuration "01-ours.conflist" contains "'x-more': 1"

  @mutant:others-forgotten @mutant:copies-unmarked
  Scenario: It goes when our entry is to be in the primary's
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG_FILENAME" to "01-ours.conflist"
    Then the configuration "02-istio-cni.conflist" is not there for 2 s
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG" to "false"
    Then the configuration "01-ours.conflist" is not there for 2 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms

  @mutant:others-forgotten
  Scenario: An entry in the primary's goes once ours stands
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG" to "false"
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms
    When its ConfigMap sets "ISTIO_OWNED_CNI_CONFIG" to "true"
    Then the conflist "02-istio-cni.conflist" lists "lab-net, istio-cni" within 5000 ms
    And the conflist "10-lab.conflist" lists "lab-net" within 5000 ms
    And the conflist "10-lab.conflist" is as it was
