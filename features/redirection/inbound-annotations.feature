@real-kernel
Feature: Annotations choose which inbound traffic is caught

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  Scenario Outline: includeInboundPorts "<ports>": port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/includeInboundPorts" is "<ports>"
    Then TCP from "outside" to "cart" port <port> <ending>

    @mutant:list-lost
    Examples:
      | ports   | port | ending       |
      | *       | 8080 | passes 15006 |
      | 8080    | 8080 | passes 15006 |
      | 80,8080 | 8080 | passes 15006 |

    @mutant:annotation-ignored
    Examples:
      | ports   | port | ending       |
      | 80      | 8080 | is direct    |
      |         | 8080 | is direct    |

  Scenario Outline: excludeInboundPorts "<ports>": port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "<ports>"
    Then TCP from "outside" to "cart" port <port> <ending>

    @mutant:annotation-ignored
    Examples:
      | ports   | port  | ending        |
      | 8080    | 8080  | is direct     |
      | 80,8080 | 8080  | is direct     |

    @mutant:exclusion-too-wide
    Examples:
      | ports   | port  | ending        |
      | 80      | 8080  | passes 15006  |
      |         | 8080  | passes 15006  |

    @mutant:health-captured
    Examples:
      | ports   | port  | ending        |
      | 80      | 15021 | ends at 15021 |
      |         | 15021 | ends at 15021 |

  @mutant:exclusion-beside-list
  Scenario: Beside a list of included ports exclusions do not count
    Given its annotation "traffic.sidecar.istio.io/includeInboundPorts" is "8080"
    And its annotation "traffic.sidecar.istio.io/excludeInboundPorts" is "8080"
    Then TCP from "outside" to "cart" port 8080 passes 15006
