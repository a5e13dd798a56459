@real-kernel @install-cni @millrace
Feature: Foreign rules do not make a right repair a failed one
  Other programs keep rules in a pod's namespace. What the agent cannot judge in them disproves nothing: a packet is sent all the same, and the
  kernel's counters tell whether it was redirected.

  @mutant:undecided-is-no
  Scenario: A rule with a condition that the agent does not know
    Given a node without the plugin
    And the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And the node agent's setting "MILLRACE_REPAIR_FALLBACK" is "delete"
    And pod "cart" of the mesh
    And it runs
    And a foreign rule of its namespace accepts packets by their direction
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "is redirected to port 15001"
    And its metrics have "millrace_unredirected_pods 0"

  @mutant:open-connections-stay
  Scenario: A connection that was open before the rules does not bypass the proxy
    The kernel follows connections because of the foreign rule, and would let this one go on as it is. The proxy's own is none of the repair's business.
    Given a node without the plugin
    And the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it runs
    And a foreign rule of its namespace accepts packets by their direction
    And "cart" keeps a connection to "outside" port 8080 open
    And "cart" keeps a connection to "outside" port 8080 open as its proxy
    When the node agent is deployed
    Then the node agent tells of it: RepairedBrokenPod, "is redirected to port 15001"
    And the connection of "cart" ends
    And the connection of "cart" as its proxy goes on
    And its metrics have "millrace_unredirected_pods 0"
