@real-kernel
Feature: No pod of the mesh needs a right of its own
  With the plugin, nobody in a pod programs its rules: a namespace may enforce the strictest level of Pod Security. The init container that does
  it without the plugin needs NET_ADMIN, NET_RAW and root.

  @istio-iptables @mutant:no-outbound-capture
  Scenario: A restricted namespace refuses istio-init, and its pods are redirected without it
    Given namespace "shop" enforces Pod Security "restricted"
    And pod "with-init" of the mesh
    And its own init container programs its rules
    And pod "cart" of the mesh
    And an init container checks its rules
    When a user creates "with-init"
    Then the API server refuses it: pods "with-init" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities (container "istio-init" must not include "NET_ADMIN", "NET_RAW" in securityContext.capabilities.add), runAsNonRoot != true (container "istio-init" must not set securityContext.runAsNonRoot=false), runAsUser=0 (container "istio-init" must not set runAsUser=0)
    When a user creates "cart"
    Then the API server admits it, and it runs

  @istio-iptables @mutant:no-outbound-capture
  Scenario: The level baseline refuses istio-init as well
    Given namespace "shop" enforces Pod Security "baseline"
    And pod "with-init" of the mesh
    And its own init container programs its rules
    And pod "cart" of the mesh
    And an init container checks its rules
    When a user creates "with-init"
    Then the API server refuses it: non-default capabilities (container "istio-init" must not include "NET_ADMIN", "NET_RAW" in securityContext.capabilities.add)
    When a user creates "cart"
    Then the API server admits it, and it runs
