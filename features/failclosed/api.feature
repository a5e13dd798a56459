@real-kernel @long
Feature: A pod that nobody can be asked about does not start
  It might need redirection. The runtime is told to try again, in time for the kubelet to do so.

  Background:
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh

  @mutant:fail-open
  Scenario Outline: The API server <fault>, and goes on so
    Given the API server <fault>
    Then it fails to start within 12 s: code 11, "<reason>"
    And the API server was asked for pods between <least> and <most> times

    Examples:
      | fault                    | reason           | least | most |
      | answers 404              | no such pod      | 4     | 20   |
      | answers 429              | it answered 429  | 4     | 20   |
      | answers 500              | it answered 500  | 4     | 20   |
      | answers 503              | it answered 503  | 4     | 20   |
      | answers garbage          | not this pod     | 4     | 20   |
      | breaks off in the middle | gave up after    | 4     | 20   |
      | drops the connection     | gave up after    | 4     | 40   |
      | hangs                    | gave up after    | 1     | 4    |

  @mutant:denied-retried
  Scenario Outline: The API server <fault>: asking again would change nothing
    Given the API server <fault>
    Then it fails to start within 3 s: code 11, "<reason>"
    And the API server was asked for pods 1 time

    Examples:
      | fault       | reason          |
      | answers 401 | it answered 401 |
      | answers 403 | it answered 403 |

  @mutant:no-retry
  Scenario Outline: The API server <fault> the first <times>, then tells
    Given the API server <fault> the first <times>
    Then it starts within 9 s
    And the API server was asked for pods <requests> times
    And TCP from "cart" to "outside" port 8080 passes 15001
    And TCP from "outside" to "cart" port 8080 passes 15006

    Examples:
      | fault                    | times   | requests |
      | answers 404              | time    | 2        |
      | answers 404              | 3 times | 4        |
      | answers 429              | 2 times | 3        |
      | answers 500              | 2 times | 3        |
      | answers 503              | time    | 2        |
      | answers garbage          | time    | 2        |
      | breaks off in the middle | time    | 2        |
      | drops the connection     | time    | 2        |

  @mutant:status-needed
  Scenario Outline: What is no Status is known by its code: the API server <fault>
    Priority and fairness answers 429 as text, load balancers have pages of their own.

    Given the API server <fault> the first 2 times
    Then it starts within 9 s
    And the API server was asked for pods 3 times
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | fault                        |
      | answers 429 without a Status |
      | answers 502 without a Status |

  @mutant:denied-retried
  Scenario: A proxy's page that denies is final, as a Status is
    Given the API server answers 403 without a Status
    Then it fails to start within 3 s: code 11, "it answered 403"
    And the API server was asked for pods 1 time

  @mutant:short-patience
  Scenario: The API server is slow
    Given the API server takes 1500 ms
    Then it starts within 5 s
    And the API server was asked for pods 1 time
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:fail-open @mutant:del-dies-without-result
  Scenario: Once the API server is well, the pod starts and is redirected
    Given the API server answers 403
    Then it fails to start within 3 s: code 11, "it answered 403"
    When the API server is well again
    And it is deleted
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:fail-open
  Scenario: Pods outside the mesh fail closed as well, because nobody says that they are
    Given pod "web" outside the mesh
    And it is in namespace "shop"
    And the API server answers 401
    Then it fails to start within 3 s: code 11, "it answered 401"
