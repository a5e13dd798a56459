@real-kernel
Feature: What a runtime has of its unit does not change what a plugin does
  Behind a corporate proxy the container runtime has a proxy's address, for images; a hardened unit has a narrow mask; a machine has a language.
  Plugins inherit all of it. The API server is the cluster's own, and no proxy is asked for it.

  @mutant:proxy-obeyed
  Scenario Outline: The API server is asked without the proxy of <variable>
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And the plugin's environment has <variable> = "http://192.0.2.1:3128"
    Then it starts within 5 s
    And the API server was asked for pods 1 time
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | variable    |
      | HTTPS_PROXY |
      | ALL_PROXY   |
