@real-kernel
Feature: Annotations choose whose interfaces are caught

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:annotation-ignored
  Scenario: An excluded interface is left alone in both directions
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "eth0"
    Then TCP from "outside" to "cart" port 8080 is direct
    And TCP from "cart" to "outside" port 8080 is direct

  @mutant:exclusion-too-wide
  Scenario: An interface that the pod does not have changes nothing
    Given its annotation "traffic.sidecar.istio.io/excludeInterfaces" is "net1,net2"
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:annotation-ignored
  Scenario Outline: What comes from a guest's interface, named by <annotation>, is outbound traffic
    Given its annotation "<annotation>" is "eth0"
    Then TCP from "outside" to "cart" port 8080 passes 15001 and 15006

    Examples:
      | annotation                                  |
      | istio.io/reroute-virtual-interfaces         |
      | traffic.sidecar.istio.io/kubevirtInterfaces |
