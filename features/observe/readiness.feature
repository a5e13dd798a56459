@real-kernel @install-cni
Feature: The agent says what keeps it from being ready
  Readiness is true only when runtimes see what they need, and whoever asks is told what is missing.

  @millrace @mutant:readyz-always
  Scenario: A node without a network has no ready agent, even where the agent needs none itself
    Given the primary CNI has yet to write its list
    And the node agent is on the host's network
    And the node agent is deployed
    Then the node agent is not ready: "conflist: "
    And its port 8000 answers "/readyz" with 503
    And its port 8000 answers "/healthz" with 200
    And its metrics have "istio_cni_install_ready 0"
    And its metrics have "millrace_part_right{part='conflist'} 0"
    And its metrics have "millrace_part_right{part='binaries'} 1"
    When the primary CNI writes its list
    Then the node agent becomes ready within 5 s
    And its port 8000 answers "/readyz" with 200
    And its metrics have "istio_cni_install_ready 1"

  @millrace @mutant:settings-told-to-all
  Scenario: Its settings are told within its own network alone
    Given the node agent is ready
    Then its port 8000 answers "/readyz" with 200
    And its port 8000 answers "/settings" with 403
    And its port 8000 answers "/metrics" with 404
    And its port 15014 answers "/settings" with 404

  @mutant:looked-where-nobody-listens
  Scenario: No start of an agent is reported as unhealthy
    Given the kubelet's probes take their real time
    When the node agent is deployed
    Then the node agent becomes ready within 30 s
    And no event says that the node agent is unhealthy
