@real-kernel
Feature: Annotations choose which outbound traffic is caught

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  Scenario Outline: includeOutboundIPRanges "<ranges>": port 8080 <ending>
    Given its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is "<ranges>"
    Then TCP from "cart" to "outside" port 8080 <ending>

    @mutant:list-lost
    Examples:
      | ranges                     | ending       |
      | *                          | passes 15001 |
      | 0.0.0.0/0                  | passes 15001 |
      | {outside/16}               | passes 15001 |
      | {outside+7}/16             | passes 15001 |
      | 192.0.2.0/24,{outside/16}  | passes 15001 |

    @mutant:annotation-ignored
    Examples:
      | ranges                     | ending       |
      | 192.0.2.0/24               | is direct    |
      | {outside+1}/32             | is direct    |
      |                            | is direct    |

  Scenario Outline: excludeOutboundIPRanges "<ranges>": port 8080 <ending>
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundIPRanges" is "<ranges>"
    Then TCP from "cart" to "outside" port 8080 <ending>

    @mutant:annotation-ignored
    Examples:
      | ranges                      | ending       |
      | {outside/16}                | is direct    |
      | 192.0.2.0/24,{outside/16}   | is direct    |

    @mutant:exclusion-too-wide
    Examples:
      | ranges                      | ending       |
      | 192.0.2.0/24                | passes 15001 |

    @mutant:no-outbound-capture
    Examples:
      | ranges                      | ending       |
      |                             | passes 15001 |

  Scenario Outline: excludeOutboundPorts "<ports>": port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "<ports>"
    Then TCP from "cart" to "outside" port <port> <ending>

    @mutant:annotation-ignored
    Examples:
      | ports    | port | ending       |
      | 8080     | 8080 | is direct    |
      | 443,8080 | 8080 | is direct    |
      | 443,8080 | 443  | is direct    |

    @mutant:exclusion-too-wide
    Examples:
      | ports    | port | ending       |
      | 443      | 8080 | passes 15001 |

    @mutant:no-outbound-capture
    Examples:
      | ports    | port | ending       |
      |          | 8080 | passes 15001 |

  Scenario Outline: includeOutboundPorts "<ports>" beside no range at all: port <port> <ending>
    Given its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is ""
    And its annotation "traffic.sidecar.istio.io/includeOutboundPorts" is "<ports>"
    Then TCP from "cart" to "outside" port <port> <ending>

    @mutant:list-lost
    Examples:
      | ports    | port | ending       |
      | 8080     | 8080 | passes 15001 |
      | 443,8080 | 8080 | passes 15001 |

    @mutant:annotation-ignored
    Examples:
      | ports    | port | ending       |
      | 443      | 8080 | is direct    |
      |          | 8080 | is direct    |

  @mutant:exclusion-after-inclusion
  Scenario: A port that is both included and excluded is excluded
    Given its annotation "traffic.sidecar.istio.io/includeOutboundPorts" is "8080"
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" is "8080"
    Then TCP from "cart" to "outside" port 8080 is direct

  @mutant:exclusion-after-inclusion
  Scenario: A destination that is both included and excluded is excluded
    Given its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is "{outside/8}"
    And its annotation "traffic.sidecar.istio.io/excludeOutboundIPRanges" is "{outside/16}"
    Then TCP from "cart" to "outside" port 8080 is direct

  @ipv6
  Scenario Outline: IPv6 ranges "<ranges>": port 8080 <ending>
    Given its addresses are IPv6
    And pod "afar" outside the mesh
    And its addresses are IPv6
    And pod "basket" of the mesh
    And its addresses are IPv6
    And its annotation "traffic.sidecar.istio.io/includeOutboundIPRanges" is "<ranges>"
    Then TCP from "basket" to "afar" port 8080 over IPv6 <ending>

    @mutant:list-lost
    Examples:
      | ranges        | ending       |
      | *             | passes 15001 |
      | {afar/32}     | passes 15001 |

    @mutant:annotation-ignored
    Examples:
      | ranges        | ending       |
      | 2001:db8::/32 | is direct    |
      | 192.0.2.0/24  | is direct    |
