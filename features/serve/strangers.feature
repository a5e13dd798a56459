@real-kernel @install-cni @millrace
Feature: Only root is told about pods
  The socket's file keeps other users away. Who gets past that, because it may open every file, is known by its user all the same.

  Background:
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    And it runs

  @mutant:socket-for-anybody
  Scenario: Its file is root's
    Then "/var/run/istio-cni/agent.sock" of the node has the mode 600 and is root's

  @mutant:stranger-served
  Scenario: Another user gets no answer, and root does
    When user 1000, who may open every file, asks the agent's socket:
      """
      {"version": 1, "kind": "pod", "namespace": "shop", "name": "cart", "uid": "UID"}
      """
    Then it does not answer
    And the node agent says "a stranger is not answered"
    When the agent's socket is asked:
      """
      {"version": 1, "kind": "pod", "namespace": "shop", "name": "cart", "uid": "UID"}
      """
    Then it answers "'response':'found'"
