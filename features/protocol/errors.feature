@real-kernel
Feature: A malformed call is refused in the words of the CNI specification
  Runtimes act on the code, and people read the message.

  @mutant:env-unchecked
  Scenario: Everything that is missing is named at once
    Given a call of ADD
    And its variables CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME are missing
    When the plugin is called
    Then the plugin fails: code 4, "[CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME]"

  @mutant:env-unchecked
  Scenario Outline: <command> without <variable>
    Given a call of <command>
    And its variable <variable> is missing
    When the plugin is called
    Then the plugin fails: code 4, "<variable>"

    Examples:
      | command | variable        |
      | ADD     | CNI_NETNS       |
      | CHECK   | CNI_NETNS       |
      | DEL     | CNI_CONTAINERID |
      | DEL     | CNI_IFNAME      |
      | STATUS  | CNI_PATH        |
      | GC      | CNI_PATH        |

  @mutant:env-unchecked
  Scenario: A command that nobody knows
    Given a call of REMOVE
    When the plugin is called
    Then the plugin fails: code 4, "REMOVE"

  @mutant:env-unchecked
  Scenario: A container id that is none
    Given a call of ADD
    And its variable CNI_CONTAINERID is "../../etc"
    When the plugin is called
    Then the plugin fails: code 4, "container"

  @mutant:conf-unchecked
  Scenario: A configuration that is no JSON
    Given a call of ADD
    And its configuration is the text `{"cniVersion": "1.1.0", "name":`
    When the plugin is called
    Then the plugin fails: code 6, ""

  @mutant:conf-unchecked
  Scenario: A configuration without a name
    Given a call of ADD
    And its configuration has no "name"
    When the plugin is called
    Then the plugin fails: code 7, "network name"

  @mutant:conf-unchecked
  Scenario: A configuration whose settings have the wrong types
    Given a call of ADD
    And its configuration's "exclude_namespaces" is 5
    When the plugin is called
    Then the plugin fails: code 6, "exclude_namespaces"

  @mutant:args-unchecked
  Scenario: Arguments that are no pairs
    Given a call of ADD
    And its variable CNI_ARGS is "K8S_POD_NAME"
    When the plugin is called
    Then the plugin fails: code 4, "ARGS: invalid pair"

  @mutant:args-unchecked
  Scenario: Arguments that nobody knows
    Given a call of ADD
    And its variable CNI_ARGS is "COLOUR=green"
    When the plugin is called
    Then the plugin fails: code 4, "ARGS: unknown args"

  @mutant:success-without-rules
  Scenario: A namespace that is not there, for a pod that needs rules
    Given pod "cart" of the mesh
    And it runs
    And a call of ADD
    And it is for pod "cart"
    And its variable CNI_NETNS is "/run/netns/gone"
    When the plugin is called
    Then the plugin fails: code 5, "failed to open netns"
