@real-kernel
Feature: Annotations choose whose interfaces are caught
  A second network of a pod may carry what no proxy must touch: storage, replication, a management plane.

  Background:
    Given pod "outside" outside the mesh
    And it has the interface "net1" in a second network
    And pod "cart" of the mesh
    And it has the interface "net1" in a second network

  @mutant:annotation-ignored
  Scenario: An excluded interface is left alone in both directions, the other one is caught
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "net1"
    Then TCP from "outside" to "cart" port 8080 over net1 is direct
    And TCP from "cart" to "outside" port 8080 over net1 is direct
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:annotation-ignored
  Scenario: The first interface can be excluded as well
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "eth0"
    Then TCP from "outside" to "cart" port 8080 is direct
    And TCP from "cart" to "outside" port 8080 is direct
    And TCP from "outside" to "cart" port 8080 over net1 passes 15006
    And TCP from "cart" to "outside" port 8080 over net1 passes 15001

  @mutant:annotation-ignored
  Scenario: Several at once
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "eth0,net1"
    Then TCP from "outside" to "cart" port 8080 is direct
    And TCP from "cart" to "outside" port 8080 over net1 is direct

  @mutant:no-inbound-capture
  Scenario: Nobody excludes it: a second network is caught like the first
    Then TCP from "outside" to "cart" port 8080 over net1 passes 15006
    And TCP from "cart" to "outside" port 8080 over net1 passes 15001

  @mutant:exclusion-too-wide
  Scenario: An interface that the pod does not have changes nothing
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "net5,net6"
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001

  @ipv6 @mutant:annotation-ignored
  Scenario: An excluded interface over IPv6
    Given its addresses are IPv6
    And its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "net1"
    And pod "beyond" outside the mesh
    And its addresses are IPv6
    And it has the interface "net1" in a second network
    Then TCP from "beyond" to "cart" port 8080 over net1 over IPv6 is direct
    And TCP from "cart" to "beyond" port 8080 over net1 over IPv6 is direct
    And TCP from "cart" to "beyond" port 8080 over IPv6 passes 15001
