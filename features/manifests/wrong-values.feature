@install-cni @millrace
Feature: Values that cannot be are refused, all of them at once
  Each is told with its name, what it says and what it may be. Nothing is rendered then.

  Background:
    Given the agent's image is "registry.example.com/mesh/install-cni:1.0"

  @mutant:unknown-key-passed
  Scenario Outline: A value that is not there: <given>
    When manifests are rendered with "--set <given>"
    Then it ends with exit code 1 and says "<told>"
    And nothing is rendered

    Examples:
      | given               | told                                                                                    |
      | chaind=false        | chaind: false: there is no such value; did you mean chained?                            |
      | repair.repairpod=1  | repair.repairpod: 1: there is no such value; did you mean repair.repairPods?            |
      | enabledd.x=1        | enabledd: {"x":1}: there is no such value                                               |

  @mutant:wrong-kinds-pass
  Scenario Outline: A value of the wrong kind: <given>
    When manifests are rendered with "--set <given>"
    Then it ends with exit code 1 and says "<told>"
    And nothing is rendered

    Examples:
      | given               | told                                                                                    |
      | chained=maybe       | chained: "maybe": must be true or false                                                 |
      | provider=calico     | provider: "calico": must be one of "default", "multus"                                  |
      | cniBinDir=opt       | cniBinDir: "opt": must be an absolute path, or ""                                       |
      | kubeconfigMode=888  | kubeconfigMode: 888: must be a mode in quotes, octal with a leading 0, such as "0600"   |
      | env.A.B=1           | env: {"A":{"B":1}}: must be a map of texts                                              |

  @mutant:one-mistake-told
  Scenario: Several
    Given values of the chart:
      """
      platform: eks
      chained: yes please
      taint: {mode: always}
      """
    When manifests are rendered
    Then it ends with exit code 1 and says "platform: "eks": unknown; known are gke, huawei-cce, k3d, k3s, microk8s, minikube, openshift"
    And it says "chained: "yes please": must be true or false"
    And it says "taint.mode: "always": must be one of "", "node", "readiness", "untaint""

  @mutant:multus-chained-accepted
  Scenario: Multus needs a file of its own
    When manifests are rendered with "--set provider=multus"
    Then it ends with exit code 1 and says "chained: true contradicts provider: "multus": Multus runs the plugin from a file of its own"

  @mutant:gate-without-host-network
  Scenario: A gate on the pod network would wait for itself
    When manifests are rendered with "--set statusGate=agent"
    Then it ends with exit code 1 and says "statusGate: "agent" contradicts hostNetwork: false: "

  @mutant:ambient-accepted
  Scenario Outline: Ambient mode is rejected unless its operator accepts that nothing serves it: <value>
    When manifests are rendered with "--set <value>"
    Then it ends with exit code 1 and says "<given> contradicts ambient.acceptUnredirected: false: this node agent serves sidecars only"
    And it says "remove it, or set ambient.acceptUnredirected: true"
    And nothing is rendered

    Examples:
      | value                 | given                    |
      | ambient.enabled=true  | ambient.enabled: true    |
      | profile=ambient       | profile: "ambient"       |
      | env.AMBIENT_ENABLED=T | env.AMBIENT_ENABLED: "T" |

  @mutant:usage-ends-with-1
  Scenario: A command line that cannot be is told apart from values
    When manifests are rendered with "--no-such-option"
    Then it ends with exit code 2 and says "--no-such-option"

  @mutant:tools-assumed
  Scenario Outline: A back end that starts programs needs an image that has them: <backend>
    When manifests are rendered with "--set backend=<backend>"
    Then it ends with exit code 1 and says "backend: "<backend>" contradicts iptablesTools: false: the image has no iptables tools; set backend: auto, nft-compat or nft"
    And nothing is rendered

    Examples:
      | backend         |
      | iptables-nft    |
      | iptables-legacy |

  @mutant:surge-accepted
  Scenario: One node has one agent, also while it is upgraded
    When manifests are rendered with "--set updateStrategy.rollingUpdate.maxSurge=1,updateStrategy.rollingUpdate.maxUnavailable=0"
    Then it ends with exit code 1 and says "updateStrategy.rollingUpdate.maxSurge: 1: must be 0: two agents on one node, the old one and the new, would undo each other's work"
    And nothing is rendered

  @mutant:pod-fields-doubled
  Scenario Outline: The agent's pod says of itself who it is: <name>
    When manifests are rendered with "--set env.<name>=other"
    Then it ends with exit code 1 and says "env.<name>: "other": must be left out: it is <field> of the agent's pod"
    And nothing is rendered

    Examples:
      | name             | field              |
      | NODE_NAME        | spec.nodeName      |
      | POD_NAME         | metadata.name      |
      | POD_NAMESPACE    | metadata.namespace |
      | REPAIR_NODE_NAME | spec.nodeName      |
