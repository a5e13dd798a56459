@real-kernel @install-cni @long
Feature: What the agent does with a pod that came up unredirected (field S4)
  A pod that starts before the plugin is there fails its validation, again and again. Of the policies that are on, the first of repair,
  delete and label counts, and the agent writes what belongs to that one, with the rights of that one.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And an init container checks its rules
    And exposure of pod "cart" is measured

  Scenario Outline: repair <repair>, delete <delete>, label <label>
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "<repair>"
    And the node agent's setting "REPAIR_DELETE_PODS" is "<delete>"
    And the node agent's setting "REPAIR_LABEL_PODS" is "<label>"
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: <reason>, "<text>"
    And the node agent has written pods' "<writes>", and nothing else for 3 s
    And the node agent has used its rights on pods
    And <got past>

    @mutant:priority-swapped
    Examples:
      | repair | delete | label | reason            | text                            | writes      | got past                                            |
      | true   | true   | true  | RepairedBrokenPod | is redirected to port 15001     | nothing     | exposure of pod "cart" was 0                        |
      | true   | true   | false | RepairedBrokenPod | is redirected to port 15001     | nothing     | exposure of pod "cart" was 0                        |
      | true   | false  | true  | RepairedBrokenPod | is redirected to port 15001     | nothing     | exposure of pod "cart" was 0                        |
      | false  | true   | true  | DeleteBrokenPod   | pod detected as broken, deleted | delete pods | nothing of pod "cart" has run, and nothing got past |

    @mutant:repair-believes
    Examples:
      | repair | delete | label | reason            | text                        | writes  | got past                                            |
      | true   | false  | false | RepairedBrokenPod | is redirected to port 15001 | nothing | exposure of pod "cart" was 0                        |

    @mutant:policies-need-repair @mutant:evicted
    Examples:
      | repair | delete | label | reason          | text                            | writes      | got past                                            |
      | false  | true   | false | DeleteBrokenPod | pod detected as broken, deleted | delete pods | nothing of pod "cart" has run, and nothing got past |

    @mutant:label-on-pod
    Examples:
      | repair | delete | label | reason         | text                            | writes            | got past                                            |
      | false  | false  | true  | LabelBrokenPod | pod detected as broken, labeled | patch pods/status | nothing of pod "cart" has run, and nothing got past |

    @mutant:no-policy-repairs
    Examples:
      | repair | delete | label | reason          | text                     | writes  | got past                                            |
      | false  | false  | false | UnredirectedPod | no repair policy is on   | nothing | nothing of pod "cart" has run, and nothing got past |

  Scenario Outline: With the values of Istio <version> it is <what>
    What an operator carries over from an older chart means what it meant there: until 1.20 the chart deleted and labelled, of which the deletion
    counts, since 1.21 it repairs.

    Given the chart's values are "<values>"
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: <reason>, "<text>"
    And the node agent has written pods' "<writes>", and nothing else for 3 s
    And the node agent has used its rights on pods
    And <got past>

    @mutant:priority-swapped
    Examples:
      | version | what     | reason            | text                            | writes      | values                                                                              | got past                                            |
      | 1.20    | deleted  | DeleteBrokenPod   | pod detected as broken, deleted | delete pods | cni.repair.repairPods=false, cni.repair.deletePods=true, cni.repair.labelPods=true  | nothing of pod "cart" has run, and nothing got past |

    @mutant:repair-believes
    Examples:
      | version | what     | reason            | text                            | writes      | values                                                                              | got past                                            |
      | 1.21    | repaired | RepairedBrokenPod | is redirected to port 15001     | nothing     | cni.repair.repairPods=true, cni.repair.deletePods=false, cni.repair.labelPods=false | exposure of pod "cart" was 0                        |

  @mutant:init-container-fixed
  Scenario: A mesh whose templates call the validation otherwise
    Given the node agent's setting "REPAIR_INIT_CONTAINER_NAME" is "mesh-check"
    And the init container that checks its rules is called "mesh-check"
    And it came up unredirected
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "is redirected to port 15001"
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 1"
    And exposure of pod "cart" was 0

  @mutant:label-fixed
  Scenario: The label has the key and the value that the settings say
    Given the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_LABEL_PODS" is "true"
    And the node agent's setting "REPAIR_BROKEN_POD_LABEL_KEY" is "example.com/unredirected"
    And the node agent's setting "REPAIR_BROKEN_POD_LABEL_VALUE" is "seen"
    And it came up unredirected
    When the node agent is deployed
    Then it gets the label "example.com/unredirected" = "seen"
    And nothing of pod "cart" has run, and nothing got past

  @mutant:repair-always-on
  Scenario: Switched off, repair leaves pods alone; switched on again, it does not
    Given the chart's value "admissionPolicy.enabled" is "false"
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_LABEL_PODS" is "true"
    And it came up unredirected
    When the node agent is deployed
    Then it gets the label "cni.istio.io/uninitialized" = "true"
    When its ConfigMap sets "REPAIR_ENABLED" to "false"
    Then the node agent says "repair-enabled"
    When its ConfigMap sets "REPAIR_BROKEN_POD_LABEL_KEY" to "example.com/unredirected"
    Then it does not get the label "example.com/unredirected" for 2 s
    When its ConfigMap sets "REPAIR_BROKEN_POD_LABEL_VALUE" to "late"
    And its ConfigMap sets "REPAIR_ENABLED" to "true"
    Then it gets the label "example.com/unredirected" = "late"
    And nothing of pod "cart" has run, and nothing got past
