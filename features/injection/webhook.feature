@real-kernel
Feature: Plain pods become pods of the mesh when they are created
  Nobody writes a proxy into a pod. A namespace has a label, its users create plain pods, and the API server asks istiod's webhook what to make of
  each. What the webhook answers is what the node gets: containers, annotations, the proxy's identity.

  Background:
    Given istiod injects pods
    And namespace "shop" has the label istio-injection=enabled
    And pod "outside" outside the mesh
    And pod "cart" of namespace "shop", as its author wrote it

  @istio-iptables @mutant:no-outbound-capture
  Scenario: A plain pod of a labelled namespace is injected, checked and redirected
    When a user creates "cart"
    Then the API server admits it, and it runs
    And its containers are istio-validation, app, istio-proxy
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

  @istio-iptables @mutant:annotation-ignored
  Scenario: What its author asks for in annotations counts
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "443"
    When a user creates "cart"
    Then the API server admits it, and it runs
    And TCP from "cart" to "outside" port 443 is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:everything-enrolled
  Scenario: A pod that declines is left as its author wrote it
    Given its label "sidecar.istio.io/inject" is "false"
    When a user creates "cart"
    Then the API server admits it, and it runs
    And its containers are app
    And TCP from "cart" to "outside" port 8080 is direct

  @istio-iptables @mutant:no-inbound-capture
  Scenario: A pod of another namespace is injected if it asks for it
    Given pod "cart" of namespace "default", as its author wrote it
    And its label "sidecar.istio.io/inject" is "true"
    When a user creates "cart"
    Then the API server admits it, and it runs
    And TCP from "outside" to "cart" port 8080 passes 15006

  @istio-iptables @mutant:no-outbound-capture
  Scenario: While istiod is down, no pod starts without its proxy
    Given istiod is down
    When a user creates "cart"
    Then the API server refuses it: Internal error occurred: failed calling webhook "namespace.sidecar-injector.istio.io": failed to call webhook: Post "https://istiod.istio-system.svc:443/inject?timeout=10s": no endpoints available for service "istiod"
    When istiod is back
    And a user creates "cart"
    Then the API server admits it, and it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
