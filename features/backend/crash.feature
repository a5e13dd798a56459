@real-kernel @fake-kernel @millrace @long
Feature: A plugin that is killed leaves the old rules or the new ones (istio-54311; field S28)
  Runtimes kill plugins that take too long, and nodes run out of memory. What a killed ADD leaves is never a mix, and the next
  ADD makes it right.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:two-transactions @mutant:half-at-a-time
  Scenario Outline: From <first> to <second>
    Given the plugin's configuration has "millrace_backend" = "<first>"
    Then an ADD with <second> that is killed at any system call leaves the old rules or the new ones
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | first      | second     |
      | nft-compat | nft        |
      | nft        | nft-compat |
