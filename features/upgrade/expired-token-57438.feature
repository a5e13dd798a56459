@real-kernel @install-cni @long
Feature: Credentials that are refused hold pods up, and never the agent that brings new ones (istio-57438, istio-38077; field S10)
  A node whose agent is gone for long has an expired token in its kubeconfig. Pods of the mesh wait, with an error that says why; the agent's
  own pod passes, or nobody would ever renew the token.

  @mutant:own-pod-asked
  Scenario: 401 for everybody until the agent is there
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the API server falls silent on a watch of daemonsets.apps
    And the API server answers 503 on a get of daemonsets.apps
    And the DaemonSet is deleted
    And nobody uses the node agent's token for 10 s
    And "cart" starts
    Then it does not start: code 11, "it answered 401"
    When the API server answers 401 on a get of pods
    And the node agent is deployed
    Then the node agent becomes ready within 30 s
    And it comes up within 60 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
