@real-kernel @install-cni @millrace
Feature: Pods of ambient mode are reported, as nothing redirects them to ztunnel
  This node agent serves sidecars only. A pod that upstream's agent would capture starts without redirection: it has an event and counts in a
  metric, for which there is an alert.

  Background:
    Given the chart's value "ambient.enabled" is "true"
    And the chart's value "ambient.acceptUnredirected" is "true"

  @mutant:ambient-unseen
  Scenario: A pod is in ambient mode by its own label
    Given the node agent is ready
    And pod "cart" outside the mesh
    And its label "istio.io/dataplane-mode" is "ambient"
    And it runs
    Then an event "AmbientPodNotRedirected" says "this node agent serves sidecars only"
    And its metrics have "millrace_ambient_pods 1"

  @mutant:ambient-namespace-unread
  Scenario: A pod is in ambient mode by its namespace's label
    Given the node agent is ready
    And namespace "shop" has the label istio.io/dataplane-mode=ambient
    And pod "cart" outside the mesh
    And it is in namespace "shop"
    And it runs
    Then an event "AmbientPodNotRedirected" says "this node agent serves sidecars only"
    And its metrics have "millrace_ambient_pods 1"
