@real-kernel @install-cni @millrace
Feature: The STATUS gate is for agents on the node's network only
  A runtime whose STATUS fails reports its network as not ready, and then no pod that needs that network is started. An agent that needs it
  would wait for itself.

  @mutant:refused-setting-applied
  Scenario: Off the node's network it is refused
    Given the node agent is ready
    When its ConfigMap sets "MILLRACE_STATUS_GATE" to "agent"
    Then an event "SettingRefused" says "hostNetwork"
    And our entry in "10-lab.conflist" has no "millrace_status_gate"

  @mutant:gate-never
  Scenario: On the node's network it holds
    Given the node agent is on the host's network
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When its ConfigMap sets "MILLRACE_STATUS_GATE" to "agent"
    Then our entry in "10-lab.conflist" has "millrace_status_gate" = "agent" within 1000 ms
    When "cart" starts
    Then exposure of pod "cart" was 0

  @mutant:gate-waits
  Scenario: It stays while an agent that starts is told nothing of its pod
    Given the node agent is on the host's network
    And the node agent's setting "MILLRACE_STATUS_GATE" is "agent"
    And the node agent is ready
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    Then its metrics have "istio_cni_installs_total{result='SUCCESS'} 2"
    And our entry in "10-lab.conflist" has "millrace_status_gate" = "agent"
    When the API server answers 503 on a list of pods
    And the node agent is killed
    Then its metrics have "istio_cni_installs_total{result='SUCCESS'} 1"
    And our entry in "10-lab.conflist" has "millrace_status_gate" = "agent"
    When "cart" starts
    Then exposure of pod "cart" was 0
