@real-kernel @install-cni @millrace
Feature: An app with the user or group of its proxy is named
  A connection is known by its owner. One of an app that runs as its proxy does leaves in plain text by right rules, and the diagnosis has no
  difference to show.

  Background:
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh

  Scenario Outline: The user comes from <source>
    Given its proxy runs as <source>
    And it runs
    Then TCP from "cart" to "outside" port 8080 is direct
    And the node agent tells of it: SharedProxyAccount, "container app runs with the proxy's user 1000"
    And the node agent says "container app runs with the proxy's user 1000"
    When it is diagnosed in the node agent's container
    Then it is as it should be
    And the diagnosis notes "container app runs with the proxy's user 1000"

    @mutant:shared-account-unnamed
    Examples:
      | source                                        |
      | user 1000 and group 1000                      |
      | the pod does, as user 1000 and group 1000     |
