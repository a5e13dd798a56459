@real-kernel
Feature: How injection is set up decides what a pod may start without
  With failurePolicy: Ignore a pod that nobody injected runs outside of the mesh, and the plugin has nothing to do with it. In a namespace that
  enforces Pod Security, injection without the plugin is what keeps pods from starting.

  Background:
    Given namespace "shop" has the label istio-injection=enabled
    And pod "outside" outside the mesh
    And pod "cart" of namespace "shop", as its author wrote it

  @mutant:everything-enrolled
  Scenario: With the policy Ignore, a pod that is created while istiod is down runs without a proxy
    Given istiod injects pods where it answers
    And istiod is down
    When a user creates "cart"
    Then the API server admits it, and it runs
    And its containers are app
    And TCP from "cart" to "outside" port 8080 is direct

  @istio-iptables @mutant:no-outbound-capture
  Scenario: A restricted namespace refuses what injection makes of a pod without the plugin, and admits it with
    Given namespace "shop" enforces Pod Security "restricted"
    And istiod injects pods that program their rules themselves
    When a user creates "cart"
    Then the API server refuses it: pods "cart" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities (container "istio-init" must not include "NET_ADMIN", "NET_RAW" in securityContext.capabilities.add)
    When istiod injects pods
    And a user creates "cart"
    Then the API server admits it, and it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
