@real-kernel @install-cni @millrace
Feature: The agent looks once what the kernel can do, and every pod follows that (istio-57827; field S14)
  Agent and plugin that look for themselves can come to different ends. The agent writes down what it chose and why.

  @mutant:backend-unrecorded
  Scenario: What is recorded is what a pod gets
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    Then the node agent records the back end that pods then get
    And TCP from "cart" to "outside" port 8080 passes 15001
