@real-kernel @install-cni @long
Feature: Pods that repair cannot help (istio-49210; field S2)
  Nothing starts the containers of a pod with restartPolicy Never again: it is told so, and gets what the operator chose for such pods.

  Background:
    Given a node without the plugin
    And pod "job" of the mesh
    And an init container checks its rules
    And its containers are started once only
    And exposure of pod "job" is measured
    And it came up unredirected

  @millrace @mutant:jobs-repaired
  Scenario: It is told to be unrepairable
    When the node agent is deployed
    Then the node agent tells of it: UnrepairableBrokenPod, "restartPolicy: Never"
    And its metrics have "millrace_unrepairable_pods_total{reason='restart_policy_never'} 1"
    And the node agent tells of it no RepairedBrokenPod for 3 s
    And the node agent has written pods' "nothing", and nothing else for 3 s
    And nothing of pod "job" has run, and nothing got past

  @mutant:jobs-repaired
  Scenario Outline: It gets the fallback <fallback>
    Given the node agent's setting "MILLRACE_REPAIR_FALLBACK" is "<fallback>"
    When the node agent is deployed
    Then the node agent tells of it: UnrepairableBrokenPod, "restartPolicy: Never"
    And the node agent tells of it: <reason>
    And the node agent has written pods' "<writes>", and nothing else for 3 s
    And nothing of pod "job" has run, and nothing got past

    Examples:
      | fallback | reason          | writes            |
      | delete   | DeleteBrokenPod | delete pods       |
      | label    | LabelBrokenPod  | patch pods/status |
