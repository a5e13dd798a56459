@real-kernel @install-cni
Feature: Who minds a taint can change nothing else of a node
  With taint.mode "node" the agent may patch nodes. The API server's policy leaves of that what it is for: one taint, of the node that the
  token names.

  Background:
    Given another node "there"

  Scenario Outline: <what> is denied
    Given the chart's value "taint.mode" is "node"
    And the node agent is ready
    When the node agent's token is used to patch nodes "<node>" with `<patch>`
    Then that is denied: "ValidatingAdmissionPolicy 'istio-cni-own-node' with binding 'istio-cni-own-node' denied request: <why>"

    @mutant:policy-left-out
    Examples:
      | what                   | node   | patch                                                                              | why                                         |
      | another node's taint   | there  | {"spec":{"taints":[{"key":"cni.istio.io/not-ready","effect":"NoSchedule"}]}}       | the node agent may change its own node only |
      | a taint of others      | node-1 | {"spec":{"taints":[{"key":"node.kubernetes.io/other","effect":"NoSchedule"}]}}     | only the taint cni.istio.io/not-ready may be changed |
      | a label                | node-1 | {"metadata":{"labels":{"topology.kubernetes.io/zone":"x"}}}                        | labels and annotations of nodes may not be changed |
      | an annotation          | node-1 | {"metadata":{"annotations":{"a":"b"}}}                                             | labels and annotations of nodes may not be changed |
      | a cordon               | node-1 | {"spec":{"unschedulable":true}}                                                    | nodes may not be cordoned or uncordoned     |

    @mutant:policy-forgets-owners
    Examples:
      | what                   | node   | patch                                                                              | why                                         |
      | an owner               | node-1 | {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}} | owners and finalizers of nodes may not be changed |
      | a finalizer            | node-1 | {"metadata":{"finalizers":["example.com/stay"]}}                                   | owners and finalizers of nodes may not be changed |

    @mutant:policy-forgets-machine
    Examples:
      | what                   | node   | patch                                                                              | why                                         |
      | a provider's ID        | node-1 | {"spec":{"providerID":"aws:///zone/i-other"}}                                      | neither the provider's ID nor the ranges of pods' addresses of a node may be set |
      | a range of addresses   | node-1 | {"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}                      | neither the provider's ID nor the ranges of pods' addresses of a node may be set |

    @mutant:policy-of-any-node
    Examples:
      | what                   | node   | patch                                                                              | why                                         |
      | another node's taint   | there  | {"spec":{"taints":[{"key":"cni.istio.io/not-ready","effect":"NoSchedule"}]}}       | the node agent may change its own node only |

  @mutant:policy-of-other-node
  Scenario: Its own taint of its own node is not
    Given the chart's value "taint.mode" is "node"
    And the node agent is ready
    When the node agent's token is used to patch nodes "node-1" with `{"spec":{"taints":[{"key":"cni.istio.io/not-ready","effect":"NoSchedule"}]}}`
    Then that is allowed

  @millrace @mutant:policy-left-out
  Scenario Outline: A controller of taints is denied <what>
    Given the chart's value "taint.mode" is "<mode>"
    And the taint controller runs
    When the taint controller's token is used to patch nodes "there" with `<patch>`
    Then that is denied: "ValidatingAdmissionPolicy 'istio-cni-taint' with binding 'istio-cni-taint' denied request: <why>"

    Examples:
      | mode      | what              | patch                                                                          | why                                                  |
      | untaint   | a taint of others | {"spec":{"taints":[{"key":"node.kubernetes.io/other","effect":"NoSchedule"}]}} | only the taint cni.istio.io/not-ready may be changed |
      | readiness | a taint of others | {"spec":{"taints":[{"key":"node.kubernetes.io/other","effect":"NoSchedule"}]}} | only the taint NodeReadiness may be changed          |
      | untaint   | a label           | {"metadata":{"labels":{"a":"b"}}}                                              | labels and annotations of nodes may not be changed   |
      | readiness | a cordon          | {"spec":{"unschedulable":true}}                                                | nodes may not be cordoned or uncordoned              |
      | untaint   | an owner          | {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}} | owners and finalizers of nodes may not be changed |
      | readiness | a finalizer       | {"metadata":{"finalizers":["example.com/stay"]}}                               | owners and finalizers of nodes may not be changed |
