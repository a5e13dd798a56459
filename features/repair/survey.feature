@real-kernel @install-cni @millrace @long
Feature: Pods without validation that are not redirected
  A pod that has nothing that checks its rules runs on without them. The agent reads the rules of every pod of the mesh, tells of those
  that lack them, and acts only if it was asked to.

  Background:
    Given a node without the plugin
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs

  @mutant:survey-blind
  Scenario: It is told and counted, and left alone
    When the node agent is deployed
    Then the node agent tells of it: UnredirectedPod, "is not redirected as it should be"
    And its metrics have "millrace_unredirected_pods 1"
    And for 2 s its namespace holds no rule
    And exposure of pod "cart" was above 0

  @mutant:survey-blind
  Scenario: It is repaired if somebody asked for that
    Given the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And pod "outside" outside the mesh
    When the node agent is deployed
    Then "cart" is meant
    And the node agent tells of it: RepairedBrokenPod
    And its metrics have "millrace_unredirected_pods 0"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was above 0

  @mutant:evicts-by-delete
  Scenario: It is evicted if somebody asked for deletion
    Given the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    When the node agent is deployed
    Then it goes
    And the node agent tells of it: EvictUnredirectedPod
    And the node agent has written pods' "create pods/eviction", and nothing else for 3 s

  @mutant:evictions-unbounded
  Scenario: Agents of all nodes take turns
    Given the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    And the agent of another node takes the turn of an eviction
    When the node agent is deployed
    Then the node agent tells of it: EvictionHeld, "agents of all nodes evict one pod each 10 s"
    And it stays for 2 s

  @mutant:differs-is-unredirected
  Scenario: Rules that redirect and differ are told apart, and left alone
    Given the node agent's setting "MILLRACE_REPAIR_UNREDIRECTED" is "true"
    And the node agent's setting "REPAIR_REPAIR_PODS" is "false"
    And the node agent's setting "REPAIR_DELETE_PODS" is "true"
    When its namespace gets its rules
    And its annotation "traffic.sidecar.istio.io/excludeOutboundPorts" becomes "5432"
    And the node agent is deployed
    Then the node agent tells of it: RulesDiffer, "5432"
    And it stays for 2 s
    And its metrics have "millrace_unredirected_pods 0"
