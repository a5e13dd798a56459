@real-kernel
Feature: The groups whose traffic is caught can be chosen for a node
  Some agents in pods must not depend on a proxy. The runtime's environment says whose traffic is caught; the proxy's own
  group is exempt in any case.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  Scenario Outline: ISTIO_OUTBOUND_OWNER_GROUPS = "<groups>": group <group> <ending>
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS = "<groups>"
    Then TCP from "cart" to "outside" port 8080 as group <group> <ending>
    And TCP from "outside" to "cart" port 8080 passes 15006

    @mutant:no-outbound-capture
    Examples:
      | groups    | group | ending       |
      | *         | 2000  | passes 15001 |

    @mutant:exclusion-too-wide
    Examples:
      | groups    | group | ending       |
      | 2000      | 2000  | passes 15001 |
      | 2000,2001 | 2001  | passes 15001 |
      | root      | 0     | passes 15001 |

    @mutant:owner-groups-ignored
    Examples:
      | groups    | group | ending       |
      | 2000      | 2001  | is direct    |
      | root      | 2000  | is direct    |
      | 2000,2001 | 2002  | is direct    |
      |           | 2000  | is direct    |

  Scenario Outline: ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE = "<groups>": group <group> <ending>
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE = "<groups>"
    Then TCP from "cart" to "outside" port 8080 as group <group> <ending>

    @mutant:owner-groups-ignored
    Examples:
      | groups    | group | ending       |
      | 2000      | 2000  | is direct    |
      | 2000,2001 | 2001  | is direct    |

    @mutant:exclusion-too-wide
    Examples:
      | groups    | group | ending       |
      | 2000      | 2001  | passes 15001 |

    @mutant:no-outbound-capture
    Examples:
      | groups    | group | ending       |
      |           | 2000  | passes 15001 |

  @mutant:owner-groups-ignored
  Scenario: Beside a list of groups exclusions do not count
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS = "2000"
    And the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE = "2000"
    Then TCP from "cart" to "outside" port 8080 as group 2000 passes 15001
    And TCP from "cart" to "outside" port 8080 as group 2001 is direct

  @ipv6 @mutant:owner-groups-ignored
  Scenario: The same over IPv6
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS = "2000"
    And its addresses are IPv6
    And pod "beyond" outside the mesh
    And its addresses are IPv6
    Then TCP from "cart" to "beyond" port 8080 over IPv6 as group 2000 passes 15001
    And TCP from "cart" to "beyond" port 8080 over IPv6 as group 2001 is direct

  @mutant:proxy-captured
  Scenario: A list that names the proxy's own group does not catch the proxy
    Given the plugin's environment has ISTIO_OUTBOUND_OWNER_GROUPS = "1337"
    Then TCP from "cart" to "outside" port 8080 as its proxy is direct
