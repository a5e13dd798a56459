@real-kernel @install-cni
Feature: An agent that asks another API server does not go back in time (kubernetes-59848)
  Each of several API servers has a watch cache of its own, and one may be behind the others. Whoever reads again what any cache has takes an
  older state for the present one.

  @mutant:relist-at-hand
  Scenario: Its ConfigMap is read again, of a server whose cache is behind
    Given the API server streams no lists
    And the node agent is ready
    And the node agent follows its ConfigMap
    And pod "cart" of the mesh
    When an API server's watch cache falls behind
    And its ConfigMap sets "EXCLUDE_NAMESPACES" to "kube-system,builds"
    Then our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system", "builds"]
    When the API server reports an ERROR event 410 on a watch of configmaps the first time
    And the API server falls silent on a watch of configmaps
    Then the node agent follows its ConfigMap again
    When "cart" starts
    Then it runs
    And our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system", "builds"]
