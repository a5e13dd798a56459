@real-kernel @install-cni @millrace
Feature: The agent's socket answers questions of every version in one that the asker knows (field S11)
  Plugin and agent are upgraded apart: while an agent rolls, and for every sandbox of before, one of the two is older. The agent passes over
  what it does not know, and never answers in a version that the other has not heard of. Here the lab asks, in the words of an older and
  of a younger plugin.

  Background:
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs

  @mutant:same-version-only
  Scenario Outline: A plugin that speaks version <version> is answered in <answer>
    When the agent's socket is asked:
      """
      {"version": <version>, "kind": "pod", "namespace": "shop", "name": "cart", "uid": "UID", "of_next_year": true}
      """
    Then it answers "'version':<answer>,"
    And it answers "'response':'found'"
    And exposure of pod "cart" was 0

    Examples:
      | version | answer |
      | 0       | 0      |
      | 7       | 1      |

  @mutant:unknown-noted
  Scenario: A question of a kind that it does not know is answered so
    When the agent's socket is asked:
      """
      {"version": 7, "kind": "weather", "namespace": "shop"}
      """
    Then it answers "'response':'unsupported'"
    And exposure of pod "cart" was 0
