@real-kernel
Feature: A runtime gives up an ADD, kills the plugin in the middle, and calls DEL
  A kubelet waits `runtimeRequestTimeout` for its runtime. Whatever the plugin was about to do, DEL finds what is there, and the next ADD succeeds.

  @mutant:del-dies-without-result
  Scenario: The API server hangs for longer than that
    Given the node's runtime kills a call that takes 3000 ms
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And the API server hangs
    Then the runtime kills the call for it
    When the API server is well again
    And it is deleted
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
