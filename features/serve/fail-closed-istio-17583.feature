@real-kernel @install-cni @istio-iptables @long
Feature: Without a pod's facts the pod does not start, agent or not (istio-17583; field S21)
  A watch that tells nothing, and a server that does not say: the agent does not guess, and neither does the plugin. Success without rules
  is istio#17583; a token that is refused is istio#57438 and #38077.

  Background:
    Given the node agent is ready
    And the node agent follows the node's pods
    And pod "cart" of the mesh
    And an init container checks its rules

  @mutant:fail-open
  Scenario Outline: With a silent watch and a server that <fault> it fails to start, and comes up redirected once that is over
    When the API server falls silent on a watch of the node's pods
    And the API server <fault> on a get of pods
    Then it fails to start within 15 s: code 11, "<why>"
    When the API server is well again
    Then it comes up within 30 s

    Examples:
      | fault                      | why                  |
      | answers 401                | 401                  |
      | answers 403                | 403                  |
      | answers 404                | there is no such pod |
      | answers 429                | 429                  |
      | answers 500                | 500                  |
      | answers garbage            |                      |
      | drops the connection       |                      |
      | drips 1 bytes every 400 ms |                      |
      | hangs                      |                      |
