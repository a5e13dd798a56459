@real-kernel
Feature: A runtime and the plugin agree on a version of the CNI specification

  @mutant:version-missing
  Scenario: VERSION names all seven
    Given a call of VERSION
    When the plugin is called
    Then the plugin succeeds with
      """
      {
        "cniVersion": "1.1.0",
        "supportedVersions": ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
      }
      """

  @mutant:about-on-stdout
  Scenario: Called by hand it says what it is, on standard error
    Given a call of ADD
    And its variable CNI_COMMAND is missing
    When the plugin is called
    Then the plugin succeeds without output
    And its standard error says "CNI plugin istio-cni"

  @mutant:result-mangled
  Scenario Outline: A previous result of version <version> is handed on
    Given a call of ADD
    And its configuration's "cniVersion" is "<version>"
    And its previous result is
      """
      {
        "cniVersion": "<version>",
        "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}],
        "ips": [{<family> "interface": 0, "address": "10.1.2.3/24", "gateway": "10.1.2.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}]
        <dns>
      }
      """
    When the plugin is called
    Then the plugin succeeds with
      """
      {
        "cniVersion": "<version>",
        "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}],
        "ips": [{<family> "interface": 0, "address": "10.1.2.3/24", "gateway": "10.1.2.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}]
        <dns>
      }
      """

    Examples:
      | version | family          | dns         |
      | 0.3.0   | "version": "4", | , "dns": {} |
      | 0.3.1   | "version": "4", | , "dns": {} |
      | 0.4.0   | "version": "4", | , "dns": {} |
      | 1.0.0   |                 |             |
      | 1.1.0   |                 |             |

  @mutant:result-mangled
  Scenario Outline: And one of version <version>, which has another shape
    Given a call of ADD
    And its configuration's "cniVersion" is "<version>"
    And its previous result is
      """
      {"cniVersion": "<version>", "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}, "dns": {}}
      """
    When the plugin is called
    Then the plugin succeeds with
      """
      {"cniVersion": "<version>", "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}, "dns": {}}
      """

    Examples:
      | version |
      | 0.1.0   |
      | 0.2.0   |

  @mutant:version-unchecked
  Scenario: A version that nobody knows yet is refused
    Given a call of ADD
    And its configuration's "cniVersion" is "2.0.0"
    When the plugin is called
    Then the plugin fails: code 1, "incompatible CNI versions"

  @mutant:version-unchecked
  Scenario Outline: <command> is refused where version <version> does not have it
    Given a call of <command>
    And its configuration's "cniVersion" is "<version>"
    When the plugin is called
    Then the plugin fails: code 1, "config version does not allow <command>"

    Examples:
      | command | version |
      | CHECK   | 0.3.1   |
      | STATUS  | 1.0.0   |
      | GC      | 1.0.0   |

  @mutant:version-of-words
  Scenario Outline: <command> is given no configuration where its version is no number
    Given a call of <command>
    And its configuration's "cniVersion" is "v1.1.0"
    When the plugin is called
    Then the plugin fails: code 6, ""

    Examples:
      | command |
      | CHECK   |
      | STATUS  |
      | GC      |
