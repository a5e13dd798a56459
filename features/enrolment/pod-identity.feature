@real-kernel
Feature: The proxy is known by the user and group that it runs as
  The kubelet takes those of its container, else those of the pod, each by itself. With others exempt the proxy's own connections come back to it
  and nothing leaves the pod (istio-52614; field F5).

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @any-uid @mutant:pod-context-ignored
  Scenario: The pod's, as on OpenShift
    Given its proxy runs as the pod does, as user 1000650000 and group 1000650000
    Then TCP from "cart" to "outside" port 8080 as its proxy is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And TCP from "cart" to "outside" port 8080 as user 1337 passes 15001
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
