@real-kernel @install-cni @millrace
Feature: Nodes have a taint while pods that they need are not ready there
  The older controller's ConfigMap says which pods; each of its entries needs one.

  Background:
    Given the chart's value "taint.mode" is "readiness"
    And the chart's value "taint.config" is "[{name: istio-cni, selector: 'k8s-app=istio-cni-node, app.example.com/none!=x'}]"

  @mutant:never-retaints
  Scenario: A node is tainted while its pod is missing or unready, and freed when it is ready
    Given node "far" is made with the taints "example.com/theirs"
    And the taint controller runs
    Then node "far" has the taints "example.com/theirs, NodeReadiness"
    And an event "NodeTainted" about node "far" is there
    When the agent on node "far" is ready
    Then node "far" has the taints "example.com/theirs"
    When the agent on node "far" is not ready
    Then node "far" has the taints "example.com/theirs, NodeReadiness"
    When the agent on node "far" is ready
    Then node "far" has the taints "example.com/theirs"
    When the agent on node "far" is gone
    Then node "far" has the taints "example.com/theirs, NodeReadiness"

  @mutant:tainted-before-listed
  Scenario: No node is tainted before its pods are known
    Given node "far" is made with the taints ""
    And the agent on node "far" is ready
    And lists of pods take 1000 ms
    When the taint controller runs
    Then the taint controller becomes ready
    And node "far" has the taints ""
    And the taint controller changed node "far" 0 times

  @mutant:pods-known-with-nodes
  Scenario: Pods that are known before the nodes are known
    Given node "far" is made with the taints ""
    And the agent on node "far" is ready
    And lists of nodes take 1000 ms
    When the taint controller runs
    Then the taint controller becomes ready
    And the taint controller changed node "far" 0 times

  @mutant:map-read-once
  Scenario: The ConfigMap is followed
    Given node "far" is made with the taints ""
    And the agent on node "far" is ready
    And the taint controller runs
    And the taint controller becomes ready
    When the ConfigMap "istio-cni-taint-configmap" says "config":
      """
      - {name: istio-cni, namespace: istio-system, selector: k8s-app=istio-cni-node}
      - {name: dns, namespace: istio-system, selector: k8s-app=node-local-dns}
      """
    Then node "far" has the taints "NodeReadiness"
    When the ConfigMap "istio-cni-taint-configmap" says "config":
      """
      - {name: istio-cni, namespace: istio-system, selector: k8s-app=istio-cni-node}
      """
    Then node "far" has the taints ""

  @mutant:bad-entries-skipped
  Scenario: A ConfigMap that cannot be read is told with key and value, and what held before holds
    Given node "far" is made with the taints ""
    And the taint controller runs
    And node "far" has the taints "NodeReadiness"
    When the ConfigMap "istio-cni-taint-configmap" says "config":
      """
      - {name: istio-cni, namespce: istio-system
      """
    Then the taint controller is not ready: "read key "config" of the ConfigMap"
    And the taint controller says "follow ConfigMap istio-system/istio-cni-taint-configmap"
    And node "far" has the taints "NodeReadiness"
    When the agent on node "far" is ready
    Then node "far" has the taints ""

  @mutant:outage-lasts
  Scenario: Ready again after an outage in which the ConfigMap did not change
    Given node "far" is made with the taints ""
    And the taint controller runs
    And the taint controller becomes ready
    When watches of ConfigMaps break off, and the next 3 are refused
    Then the taint controller's probe answers 503
    And the taint controller's probe answers 200

  @mutant:once-does-nothing
  Scenario: Once is enough
    Given node "far" is made with the taints ""
    And node "near" is made with the taints "NodeReadiness"
    And the agent on node "near" is ready
    When the taint controller runs with "--run-as-daemon=false"
    Then the taint controller ends with 0
    And node "far" has the taints "NodeReadiness"
    And node "near" has the taints ""

  @mutant:last-events-dropped
  Scenario: Once is told before it ends
    Given node "far" is made with the taints ""
    And new events take 500 ms
    When the taint controller runs with "--run-as-daemon=false"
    Then the taint controller ends with 0
    And an event "NodeTainted" about node "far" is there

  @mutant:bad-entries-skipped
  Scenario Outline: Once, with a ConfigMap that makes no sense
    Given the ConfigMap "istio-cni-taint-configmap" says "config":
      """
      <text>
      """
    When the taint controller runs with "--run-as-daemon=false"
    Then the taint controller ends with 2: "<words>"

    Examples:
      | text                                     | words                                         |
      | - {name: a, selector: 'k8s-app in (a'}   | selector 'k8s-app in (a' of entry 'a' is none |
      | name: istio-cni                          | read key 'config' of the ConfigMap            |
