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

  @mutant:metrics-without-type
  Scenario: They are of the type that Prometheus reads
    Given the node agent is ready
    Then its port 15014 answers "/metrics" with a header that begins "content-type: text/plain; version=0.0.4"

  @millrace @mutant:first-look-untold
  Scenario: An agent that finds everything in its place has installed it as well
    Given the node agent is ready
    When somebody restores "10-lab.conflist"
    Then its metrics have "istio_cni_installs_total{result='SUCCESS'} 2"
    When the node agent is killed
    Then its metrics have "istio_cni_installs_total{result='SUCCESS'} 1"
    And its metrics have "millrace_heal_seconds_count 0"

  @millrace @mutant:add-untimed
  Scenario: What the plugin adds to a pod's start takes time
    Given the node agent is ready
    And pod "cart" of the mesh
    When "cart" starts
    Then it runs
    And its metrics have "millrace_add_seconds_sum{phase='whole',result='redirected'}" above zero

  @mutant:failures-counted-once
  Scenario: A failure that lasts is counted again and again
    Given the primary CNI has yet to write its list
    And the node agent is on the host's network
    When the node agent is deployed
    Then its metrics have "istio_cni_installs_total{result='CREATE_CNI_CONFIG_FAILURE'} 2"
