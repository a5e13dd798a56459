@real-kernel
Feature: The proxy's own traffic is not caught
  If it were, every connection would come back to the proxy for ever.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:proxy-uid-captured
  Scenario: By its user
    Then TCP from "cart" to "outside" port 8080 as its proxy's user is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:proxy-gid-captured
  Scenario: By its group
    Then TCP from "cart" to "outside" port 8080 as its proxy's group is direct
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:proxy-captured
  Scenario: By both
    Then TCP from "cart" to "outside" port 8080 as its proxy is direct
