@real-kernel @install-cni @millrace @long
Feature: Of several controllers one acts
  They share a lease. Whoever holds it acts, until it cannot renew it.

  Background:
    Given the chart's values are "taint.mode=untaint, taint.replicas=2"
    And node "far" is made with the taints "cni.istio.io/not-ready"
    And the taint controllers "one" and "two" run with "--lease-duration=8s --lease-renew=6s --lease-retry=400ms"

  @mutant:two-leaders
  Scenario: While all is well, one of them acts
    Given node "near" is made with the taints "cni.istio.io/not-ready"
    When the agent on node "far" is ready
    And the agent on node "near" is ready
    Then node "far" has the taints ""
    And node "near" has the taints ""
    And nobody acted who did not hold the lease

  @mutant:dead-leader-waited-for
  Scenario: The leader is killed, and the other one takes its place when the lease is over
    When the leader is killed
    Then another one leads within 20 s
    When the agent on node "far" is ready
    Then node "far" has the taints ""
    And nobody acted who did not hold the lease

  @mutant:lease-kept
  Scenario: A leader that is told to stop leaves the lease to the other one
    When the leader is told to stop
    Then another one leads within 2 s
    When the agent on node "far" is ready
    Then node "far" has the taints ""

  @mutant:lease-outlived
  Scenario: A leader that cannot renew stops acting before another one begins
    When the leader cannot renew its lease
    Then another one leads within 20 s
    And the taint controller says "not leading any more"
    When the agent on node "far" is ready
    Then node "far" has the taints ""
    And nobody acted who did not hold the lease
