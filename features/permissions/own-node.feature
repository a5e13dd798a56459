@real-kernel @install-cni
Feature: An agent's token is good for the pods of its own node
  Roles cannot say "of its own node". Whoever takes an agent's token from its node has the agent's rights everywhere, but for what the API
  server's policies deny: they go by the node that the token itself names.

  Background:
    Given another node "there"
    And pod "far" of the mesh on node "there"
    And pod "near" of the mesh on node "node-1"
    And the chart's value "repair.repairPods" is "false"

  Scenario Outline: A pod of another node is not touched where broken pods are subject to <mode>
    Given the chart's value "<mode>" is "true"
    And the node agent is ready
    When the node agent's token is used to <try>
    Then that is denied: "ValidatingAdmissionPolicy 'istio-cni-own-pods' with binding 'istio-cni-own-pods' denied request: the node agent may change pods of its own node only"

    @mutant:policy-left-out
    Examples:
      | mode              | try                                                                     |
      | repair.deletePods | delete pods "shop/far"                                                  |
      | repair.labelPods  | patch pods/status "shop/far" with `{"metadata":{"labels":{"a":"b"}}}`   |

    @mutant:policy-of-any-node
    Examples:
      | mode              | try                                                                     |
      | repair.deletePods | delete pods "shop/far"                                                  |
      | repair.labelPods  | patch pods/status "shop/far" with `{"status":{"phase":"Failed"}}`       |

  @mutant:policy-of-other-node
  Scenario Outline: One of its own node is, where broken pods are subject to <mode>
    Given the chart's value "<mode>" is "true"
    And the node agent is ready
    When the node agent's token is used to <try>
    Then that is allowed

    Examples:
      | mode              | try                                                                     |
      | repair.deletePods | delete pods "shop/near"                                                 |
      | repair.labelPods  | patch pods/status "shop/near" with `{"metadata":{"labels":{"cni.istio.io/uninitialized":"true"}}}`  |

  @mutant:any-label
  Scenario: Labelling a broken pod is no right to any label of one of its own node
    Given the chart's value "repair.labelPods" is "true"
    And the node agent is ready
    When the node agent's token is used to patch pods/status "shop/near" with `{"metadata":{"labels":{"app":"payments"}}}`
    Then that is denied: "only the label cni.istio.io/uninitialized of pods may be changed"

  @mutant:any-annotation
  Scenario Outline: Nor is it one to its <what>
    Given the chart's value "repair.labelPods" is "true"
    And the node agent is ready
    When the node agent's token is used to patch pods/status "shop/near" with `<patch>`
    Then that is denied: "annotations and finalizers of pods may not be changed"

    Examples:
      | what        | patch                                               |
      | annotations | {"metadata":{"annotations":{"a":"b"}}}              |
      | finalizers  | {"metadata":{"finalizers":["example.com/for-ever"]}} |

  @mutant:policy-of-any-status
  Scenario: Labelling is no right to say how a pod is
    Given the chart's value "repair.labelPods" is "true"
    And the node agent is ready
    When the node agent's token is used to patch pods/status "shop/near" with `{"status":{"phase":"Failed"}}`
    Then that is denied: "the node agent may label a pod, not change its status"

  @mutant:policy-always
  Scenario Outline: It is the policy that denies, and no role: without it the same is allowed (<mode>)
    Given the chart's value "<mode>" is "true"
    And the chart's value "admissionPolicy.enabled" is "false"
    And the node agent is ready
    When the node agent's token is used to <try>
    Then that is allowed

    Examples:
      | mode              | try                                                                     |
      | repair.deletePods | delete pods "shop/far"                                                  |
      | repair.labelPods  | patch pods/status "shop/far" with `{"metadata":{"labels":{"a":"b"}}}`   |
