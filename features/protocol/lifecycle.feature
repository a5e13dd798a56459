@real-kernel
Feature: After ADD a runtime calls CHECK, DEL, STATUS and GC, and acts on the answers (field S24)

  @mutant:second-add-fails
  Scenario: A second ADD changes nothing
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    When the plugin's ADD is repeated
    Then the plugin succeeds
    And nothing in its namespace was written
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:check-alarmed
  Scenario: CHECK passes for a pod with its rules
    Given pod "cart" of the mesh
    When the runtime calls CHECK of it
    Then the runtime is content
    And the plugin's last CHECK succeeded

  @mutant:check-asks-first
  Scenario: CHECK of a pod with its rules asks nobody
    A runtime that starts may call it for each pod of the node, one after the other.
    Given pod "cart" of the mesh
    And it runs
    And the API server hangs
    And a call of CHECK
    And it is for pod "cart"
    When the plugin is called
    Then the plugin succeeds without output
    And it took at most 300 ms

  @mutant:check-blind
  Scenario: CHECK fails for a pod that lost them
    Given pod "cart" of the mesh
    And its namespace holds rules of others around none of ours
    When the runtime calls CHECK of it
    Then the runtime is told: code 100, "holds no rule of ours"

  @mutant:check-eager
  Scenario: CHECK passes for a pod that needs none
    Given pod "web" outside the mesh
    When the runtime calls CHECK of it
    Then the runtime is content
    And the plugin's last CHECK succeeded

  @mutant:check-of-dry-run
  Scenario: CHECK passes in a dry run, which writes rules to a file
    Given pod "cart" of the mesh
    And the plugin's environment has DRY_RUN_FILE_PATH = "/dev/null"
    When the runtime calls CHECK of it
    Then the runtime is content
    And the plugin's last CHECK succeeded
    And its namespace holds no rule

  @mutant:check-eager
  Scenario: CHECK passes where nobody can be asked about the pod
    Given pod "cart" of the mesh
    And its namespace holds rules of others around none of ours
    And the API server answers 503
    When the runtime calls CHECK of it
    Then the runtime is content
    And the plugin's last CHECK succeeded

  @mutant:del-cleans
  Scenario: DEL succeeds twice and changes nothing
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it runs
    And a call of DEL
    And it is for pod "cart"
    When the plugin is called
    Then the plugin succeeds without output
    When the plugin is called
    Then the plugin succeeds without output
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:del-needs-netns
  Scenario: DEL succeeds without a namespace, without an agent and without an API server
    Given the API server drops the connection
    And a call of DEL
    And its variable CNI_ARGS is "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=gone"
    And its variable CNI_NETNS is ""
    When the plugin is called
    Then the plugin succeeds without output
    And the API server was not asked for anything

  @mutant:del-strict
  Scenario Outline: DEL succeeds with a configuration whose "<key>" ADD refuses
    A runtime whose DEL fails tries again and again, and the pod stays.

    Given a call of DEL
    And its configuration's "<key>" is <value>
    When the plugin is called
    Then the plugin succeeds without output

    Examples:
      | key        | value    |
      | cniVersion | "9.9.9"  |
      | cniVersion | {}       |
      | name       | "a b"    |
      | name       | 7        |

  @mutant:del-fails
  Scenario: A deleted pod can come back
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it runs
    When it is deleted
    Then it runs
    And the plugin's last DEL succeeded
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:status-strict
  Scenario: STATUS does not hold a node up whose agent has yet to start
    Given a call of STATUS
    And its configuration's "cni_agent_run_dir" is "/run/nothing-here"
    When the plugin is called
    Then the plugin succeeds without output

  @millrace @mutant:status-blind
  Scenario: STATUS waits for the agent where it is told to
    Given a call of STATUS
    And its configuration's "millrace_status_gate" is "agent"
    When the plugin is called
    Then the plugin fails: code 50, "agent"

  @millrace @mutant:status-deaf
  Scenario: And is satisfied once it answers
    Given the node's agent is up
    And a call of STATUS
    And its configuration's "millrace_status_gate" is "agent"
    When the plugin is called
    Then the plugin succeeds without output

  @mutant:gc-collects
  Scenario Outline: GC collects nothing, with attachments <attachments>
    Given pod "outside" outside the mesh
    And pod "cart" of the mesh
    And it runs
    And a call of GC
    And its configuration's "cni.dev/valid-attachments" is <attachments>
    When the plugin is called
    Then the plugin succeeds without output
    And its rules are complete
    And TCP from "cart" to "outside" port 8080 passes 15001

    Examples:
      | attachments |
      | null        |
      | []          |
