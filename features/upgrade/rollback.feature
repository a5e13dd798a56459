@real-kernel @install-cni
Feature: A rollback leaves nothing of what was rolled back (field S11)
  Helm's rollback applies the former objects. What the release between them wrote is no agent's any more, unless the next one knows it by what it is.

  @mutant:others-forgotten
  Scenario: From a list of our own back to the primary's
    Given the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    And it runs
    When the chart is applied again with "istioOwnedCNIConfig=true"
    Then another pod of the node agent is ready within 40 s
    And the conflist "02-istio-cni.conflist" lists "lab-net, istio-cni" within 5000 ms
    When the chart is applied again with "istioOwnedCNIConfig=false"
    Then another pod of the node agent is ready within 40 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms
    And the configuration "02-istio-cni.conflist" is not there for 2 s
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0
