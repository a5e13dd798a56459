@real-kernel @install-cni
Feature: A watch that expired is taken up again from the API server's memory
  Whatever ends one agent's watch with 410 ends a thousand in the same moment. If each of them then reads what is true now, etcd reads all pods of
  the cluster a thousand times. What is not older than what the agent knows is in the API server's watch cache.

  Scenario Outline: A version that is forgotten, where lists are <lists>
    Given <server>
    And the node agent is ready
    And the node agent follows the node's pods
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the API server reports an ERROR event 410 on a watch of the node's pods the first time
    Then the node agent follows the node's pods again
    When "outside" starts
    Then it runs
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001
    And the API server was asked for a list of the node's pods between 2 and 2 times
    And etcd was asked for pods between 0 and 0 times on the node agent's behalf
    And the API server was asked for a get of pods between 0 and 0 times
    And the API server has refused to stream a list of the node's pods <refusals> times

    @mutant:relist-latest
    Examples:
      | lists    | server                          | refusals |
      | streamed | the API server streams lists    | 0        |
      | ordinary | the API server streams no lists | 1        |

    @mutant:etcd-asked-again
    Examples:
      | lists          | server                                             | refusals |
      | beyond an etcd | the API server streams lists, and its etcd cannot | 1        |
