@real-kernel @install-cni
Feature: The agent's metrics have upstream's names
  Dashboards and alerts that were made for upstream's agent go on working.

  @mutant:installs-uncounted
  Scenario: An installation is counted, and every series is there before it counts
    Given the node agent is ready
    Then its metrics have "istio_cni_installs_total{result='SUCCESS'} 1"
    And its metrics have "istio_cni_installs_total{result='COPY_BINARIES_FAILURE'} 0"
    And its metrics have "istio_cni_install_ready 1"
    And its metrics have "istio_cni_repair_pods_repaired_total{type='repair',result='success'} 0"
    And its metrics have "istio_cni_repair_pods_repaired_total{type='delete',result='fail'} 0"
