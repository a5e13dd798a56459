@real-kernel @install-cni
Feature: The agent says what keeps it from being ready
  Readiness is true only when runtimes see what they need, and whoever asks is told what is missing.

  @mutant:settings-told-to-all
  Scenario: Its settings are told within its own network alone
    Given the node agent is ready
    Then its port 8000 answers "/readyz" with 200
    And its port 8000 answers "/settings" with 403
    And its port 8000 answers "/metrics" with 404
    And its port 15014 answers "/settings" with 404
