@real-kernel @millrace
Feature: One command says what is wrong with a pod's redirection
  It reads the live rules, whoever wrote them and in whatever form, and compares them with what the pod should have.

  Background:
    Given pod "cart" of the mesh

  @mutant:diagnose-forgets-annotations
  Scenario Outline: A healthy pod has no difference: <it is diagnosed>
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    When <it is diagnosed>
    Then it is as it should be
    And its rules are in the form "iptables"

    Examples:
      | it is diagnosed                |
      | it is diagnosed                |
      | it is diagnosed by its process |
      | it is diagnosed by its object  |

  @mutant:diagnose-forgets-annotations
  Scenario: A healthy pod of native rules has none, either
    Given a node whose back end is nft
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    When it is diagnosed
    Then it is as it should be
    And its rules are in the form "native"

  @ipv6 @mutant:diagnose-one-form
  Scenario: Nor has one of two families with TPROXY and DNS capture, of native rules
    Given a node whose back end is nft
    And its addresses are IPv4 and IPv6
    And its proxy's environment has ISTIO_DUAL_STACK = "true"
    And its proxy's environment has ISTIO_META_DNS_CAPTURE = "true"
    And its inbound traffic is caught by TPROXY
    When it is diagnosed
    Then it is as it should be

  @mutant:diagnose-forgets-annotations
  Scenario: Nobody names the pod, and it is no ordinary one
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    When it is diagnosed without a name
    Then it differs: "rule 1 of ip nat ISTIO_OUTPUT is not expected"
    When it is diagnosed
    Then it is as it should be

  @mutant:diagnose-forgets-exclusions
  Scenario: Its namespace is excluded on its node
    Given the plugin's configuration has "exclude_namespaces" = ["kube-system", "shop"]
    When it is diagnosed
    Then it is as it should be

  @mutant:diagnose-blind @mutant:diagnose-always-succeeds
  Scenario: It came up before the plugin was there
    Given the node's network lacks the plugin
    When it is diagnosed by its object
    Then it differs only in this: "there is no redirection: all traffic bypasses the proxy"

  @mutant:diagnose-blind @mutant:diagnose-always-succeeds
  Scenario: A rule is missing
    Given its namespace loses what exempts its proxy
    When it is diagnosed
    Then it differs: "is missing: -m owner --uid-owner 1337 -j RETURN"

  @mutant:diagnose-blind
  Scenario: All of its inbound rules are missing
    Given its namespace loses its inbound rules
    When it is diagnosed
    Then it differs: "rule 1 of ip nat PREROUTING is missing: -p tcp -j ISTIO_INBOUND"

  @mutant:diagnose-ours-alone
  Scenario: A rule of somebody else comes before one of its own
    Given its namespace holds rules of others around all of ours
    When it is diagnosed
    Then it differs: "rule 1 of ip nat OUTPUT is somebody else's and comes before ours: -p tcp -m tcp --dport 9901 -j RETURN"

  @mutant:diagnose-without-routes
  Scenario: Its policy routes are missing
    Given its inbound traffic is caught by TPROXY
    And its namespace loses its policy routes
    When it is diagnosed
    Then it differs only in this: "the policy routes of mark 1337 (table 133) are missing: inbound packets do not reach the proxy"

  @iptables-tools @mutant:diagnose-forgets-annotations
  Scenario Outline: Upstream's rules through <tool> are as good as ours
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    And its namespace loses all its rules
    When it is diagnosed
    Then it differs only in this: "there is no redirection"
    When <tool> writes upstream's rules into its namespace
    And it is diagnosed
    Then it is as it should be
    And its rules are in the form "<form>"

    Examples:
      | tool            | form     |
      | iptables-nft    | iptables |
      | iptables-legacy | legacy   |

  @iptables-tools @mutant:diagnose-one-set
  Scenario: Two sets of rules
    Given iptables-legacy writes upstream's rules into its namespace
    When it is diagnosed
    Then it differs: "two sets of rules count and redirect twice"
    And its rules are in the forms "iptables and legacy"

  @mutant:diagnose-forgets-exclusions
  Scenario: Its namespace is excluded, and its manifest is in a file
    Given it is in namespace "kube-system"
    When it is diagnosed by the object:
      """
      {
        "kind": "Pod",
        "metadata": { "name": "cart", "namespace": "kube-system", "annotations": { "sidecar.istio.io/status": "{}" } },
        "spec": { "containers": [ { "name": "app" }, { "name": "istio-proxy" } ] }
      }
      """
    Then it is as it should be

  @mutant:diagnose-takes-any-object
  Scenario Outline: The file has no pod: <has>
    When it is diagnosed by the object:
      """
      <object>
      """
    Then nobody can tell: "is not a pod in JSON: it has <has>"

    Examples:
      | has                 | object                                                                           |
      | nothing             | { "kind": "List", "items": [] }                                                  |
      | no container        | { "kind": "Pod", "metadata": { "name": "cart" } }                                |
      | Deployment          | { "kind": "Deployment", "spec": { "template": { "spec": {} } } }                 |
      | Service, Deployment | { "kind": "List", "items": [ { "kind": "Service" }, { "kind": "Deployment" } ] } |

  @mutant:diagnose-guesses
  Scenario: Nobody knows the pod
    Given it runs
    And the API server answers 403
    When it is diagnosed
    Then nobody can tell: "API server: failed to read the pod from the API server"
