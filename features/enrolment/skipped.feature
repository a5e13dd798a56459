@real-kernel
Feature: A pod that is not the mesh's business gets no rules
  Each of these pods would lose its network if it were redirected: there is no proxy to take its traffic.

  Background:
    Given pod "outside" outside the mesh

  @mutant:everything-enrolled
  Scenario: It has no proxy
    Given pod "web" outside the mesh
    And it is in namespace "shop"
    Then its namespace holds no rule
    And TCP from "web" to "outside" port 8080 is direct
    And TCP from "outside" to "web" port 8080 is direct

  @mutant:init-container-unseen
  Scenario: It programs its rules itself
    Given pod "web" of the mesh
    And it has an init container "istio-init"
    Then its namespace holds no rule
    And TCP from "web" to "outside" port 8080 is direct

  Scenario Outline: Its proxy is told DISABLE_ENVOY = "<value>"
    Given pod "web" of the mesh
    And its proxy's environment has DISABLE_ENVOY = "<value>"
    Then TCP from "web" to "outside" port 8080 <ending>

    @mutant:disable-envoy-ignored
    Examples:
      | value | ending       |
      | true  | is direct    |
      | 1     | is direct    |
      | T     | is direct    |

    @mutant:disable-envoy-by-presence
    Examples:
      | value | ending       |
      | false | passes 15001 |
      | yes   | passes 15001 |
      |       | passes 15001 |

  @mutant:proxyless-enrolled
  Scenario: Its proxy's container is called something else
    Given pod "web" of the mesh
    And its proxy's container is called "envoy"
    Then its namespace holds no rule
    And TCP from "web" to "outside" port 8080 is direct

  Scenario Outline: Its proxy is started as "<arguments>"
    Given pod "web" of the mesh
    And its proxy's arguments are "<arguments>"
    Then TCP from "web" to "outside" port 8080 <ending>

    @mutant:proxy-kind-ignored
    Examples:
      | arguments      | ending       |
      | proxy router   | is direct    |
      | proxy waypoint | is direct    |
      | proxy ztunnel  | is direct    |

    @mutant:nothing-enrolled
    Examples:
      | arguments      | ending       |
      | proxy sidecar  | passes 15001 |
      | proxy          | passes 15001 |

  Scenario Outline: Injection is refused: <where> "<value>"
    Given pod "web" of the mesh
    And its <where> "sidecar.istio.io/inject" is "<value>"
    Then TCP from "web" to "outside" port 8080 <ending>

    @mutant:inject-refusal-ignored
    Examples:
      | where      | value | ending       |
      | label      | false | is direct    |
      | label      | 0     | is direct    |
      | annotation | false | is direct    |

    @mutant:inject-by-presence
    Examples:
      | where      | value | ending       |
      | annotation | true  | passes 15001 |
      | annotation | never | passes 15001 |

  @mutant:annotation-before-label
  Scenario Outline: The label outranks the annotation: label "<label>", annotation "<annotation>"
    Given pod "web" of the mesh
    And its label "sidecar.istio.io/inject" is "<label>"
    And its annotation "sidecar.istio.io/inject" is "<annotation>"
    Then TCP from "web" to "outside" port 8080 <ending>

    Examples:
      | label | annotation | ending       |
      | true  | false      | passes 15001 |
      | false | true       | is direct    |
      |       | false      | passes 15001 |

  @mutant:mark-unneeded
  Scenario: The injector has not seen it
    Given pod "web" of the mesh
    And it has no annotation "sidecar.istio.io/status"
    Then its namespace holds no rule
    And TCP from "web" to "outside" port 8080 is direct

  @mutant:empty-mark-unseen
  Scenario: An empty mark of the injector is a mark
    Given pod "web" of the mesh
    And its annotation "sidecar.istio.io/status" is ""
    Then TCP from "web" to "outside" port 8080 passes 15001
