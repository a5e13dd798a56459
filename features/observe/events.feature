@real-kernel @install-cni @millrace @long
Feature: Events tell an operator once
  Equal events become one that counts, so that whoever repeats a mistake does not flood the API server.

  @mutant:events-flood
  Scenario: Settings refused time and again are one event
    Given the node agent is ready
    When its ConfigMap sets "MONITORING_PORT" to "15015"
    Then its metrics have "millrace_settings_rejected_total{key='monitoring-port'} 1"
    When its ConfigMap sets "MONITORING_PORT" to "15016"
    Then its metrics have "millrace_settings_rejected_total{key='monitoring-port'} 2"
    When its ConfigMap sets "MONITORING_PORT" to "15017"
    Then its metrics have "millrace_settings_rejected_total{key='monitoring-port'} 3"
    And one event "SettingRefused" about the node counts 3
