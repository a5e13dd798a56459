@real-kernel
Feature: The proxy is known by the user and group of its container
  Platforms choose them: OpenShift gives every namespace a range of its own.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @any-uid @mutant:identity-fixed
  Scenario: As on OpenShift
    Given its proxy runs as user 1000659999 and group 1000659999
    Then TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "cart" to "outside" port 8080 as user 1337 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

  @mutant:identity-fixed
  Scenario: User and group differ
    Given its proxy runs as user 2102 and group 2103
    Then TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And TCP from "cart" to "outside" port 8080 as user 2103 passes 15001
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:root-is-proxy
  Scenario: A proxy that runs as root does not exempt root
    Given its proxy runs as user 0 and group 1337
    Then TCP from "cart" to "outside" port 8080 as root passes 15001
    And TCP from "cart" to "outside" port 8080 as user 1337 is direct

  @mutant:native-sidecar-unseen
  Scenario: A native sidecar is a sidecar
    Given its proxy is a native sidecar
    Then TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy is direct

  @any-uid @mutant:native-sidecar-unseen @mutant:identity-fixed
  Scenario: A native sidecar on OpenShift
    Given its proxy is a native sidecar
    And its proxy runs as user 1000659999 and group 1000659999
    Then TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @any-uid @mutant:identity-fixed
  Scenario: TPROXY with a group of a security context constraint of one's own (istio-61791; field S17)
    Only root has the capability that TPROXY takes, and root is no identity for rules: the group is.

    Given its inbound traffic is caught by TPROXY
    And its proxy runs as user 0 and group 8939016
    Then TCP from "outside" to "cart" port 8080 passes 15006
    And TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And TCP from "cart" to "outside" port 8080 as group 1337 passes 15001
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:identity-fixed
  Scenario: An app with its proxy's user and group is exempt as its proxy is
    Given its proxy runs as user 1000 and group 1000
    Then TCP from "cart" to "outside" port 8080 is direct
    And TCP from "cart" to "outside" port 8080 as user 1337 is direct
    And TCP from "outside" to "cart" port 8080 passes 15006
