@real-kernel
Feature: The node's own traffic to its pods is redirected like any other (field S22)
  A kubelet probes from the network of its node. Injection points its probes at a port of the proxy's own, which rules leave alone; a
  probe of the app's port passes the proxy. That STRICT mTLS rejects such a probe is not shown: the proxy is a stand-in without TLS.

  Background:
    Given pod "node" outside the mesh
    And it is on the host's network
    And pod "cart" of the mesh

  @mutant:health-captured
  Scenario: A probe of the proxy's health port
    Then TCP from "node" to "cart" port 15021 ends at 15021

  @mutant:no-inbound-capture
  Scenario: A probe of the app's port
    Then TCP from "node" to "cart" port 8080 passes 15006

  @mutant:exclusion-ignored
  Scenario: A probe of an excluded port
    Given its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "8080"
    Then TCP from "node" to "cart" port 8080 is direct
    And TCP from "node" to "cart" port 80 passes 15006
