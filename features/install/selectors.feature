@real-kernel @install-cni
Feature: A selector of repair that cannot be read is not guessed at
  Nothing in its place would be every pod, and repair may delete. So nothing is repaired or installed until it is put right.

  Scenario Outline: <setting> is "<text>"
    Given the node agent's setting "<setting>" is "<text>"
    When the node agent is deployed
    Then the node agent is not ready: "allowed is a selector"
    And the conflist "10-lab.conflist" is as it was

    @mutant:selector-guessed
    Examples:
      | setting                | text      |
      | REPAIR_LABEL_SELECTORS | app in (x |

    @mutant:field-selector-guessed
    Examples:
      | setting                | text           |
      | REPAIR_FIELD_SELECTORS | spec.volumes=x |
