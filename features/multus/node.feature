@real-kernel @install-cni
Feature: Multus on the node, thin and thick (field S16)
  Runtimes read Multus' file first, and it hands on. Thin it is one binary for each call; thick a shim hands the call to a daemon, which sees
  of the node what somebody mounted.

  @mutant:multus-unknown
  Scenario Outline: Our entry is in the file of the default network that Multus <kind> hands on to
    Given Multus <kind> is installed
    And the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And exposure of pod "cart" is measured
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And TCP from "cart" to "outside" port 8080 passes 15001
    And exposure of pod "cart" was 0

    Examples:
      | kind  |
      | thin  |
      | thick |

  @mutant:inline-unread
  Scenario: Multus that runs the networks that it has inline reads no other file
    Given the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    And the node agent is ready
    When somebody writes "00-multus.conf":
      """
      {"name": "multus", "type": "multus", "delegates": [{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "lab-net"}]}]}
      """
    Then the node agent is not ready: "00-multus.conf"
    When somebody writes "00-multus.conf":
      """
      {"name": "multus", "type": "multus", "delegates": [{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "lab-net"}, {"type": "istio-cni"}]}]}
      """
    Then the node agent becomes ready within 10 s

  @mutant:inline-copied
  Scenario: The network that Multus has inline gets our entry in its own file, which Multus follows
    Multus' entrypoint takes the first file beside its own for the network, so a copy of its own file would end up in there.

    Given somebody writes "00-multus.conf":
      """
      {"name": "multus", "type": "multus", "delegates": [{"name": "lab", "cniVersion": "1.0.0", "plugins": [{"type": "lab-net"}]}]}
      """
    And the node agent is on the host's network
    When the node agent is deployed
    Then the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 10000 ms
    And the node agent is not ready: "00-multus.conf"
    When somebody writes "00-multus.conf":
      """
      {"name": "multus", "type": "multus", "delegates": [{"name": "lab", "cniVersion": "1.0.0", "plugins": [{"type": "lab-net"}, {"type": "istio-cni"}]}]}
      """
    Then the node agent becomes ready within 10 s

  @mutant:multus-copy-stays
  Scenario: The copy of Multus' own file is removed with it (multus-1429)
    Given Multus thick is installed
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "00-multus-istio-cni.conflist" lists "multus-shim, istio-cni"
    And the conflist "00-multus.conf" is as it was, byte for byte
    When somebody removes "00-multus.conf"
    Then the configuration "00-multus-istio-cni.conflist" is not there for 2 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni" within 5000 ms
    When the DaemonSet is deleted
    Then nothing of ours is left on the node
    And the conflist "10-lab.conflist" is as it was

  @mutant:multus-unread
  Scenario Outline: The agent is not ready while Multus <kind> attaches a list without our entry
    Given somebody writes "20-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "lab-net"}]}
      """
    And Multus <kind> is installed
    And the node agent's setting "CNI_CONF_NAME" is "20-other.conflist"
    When the node agent is deployed
    Then the node agent is not ready: "runtimes call Multus (00-multus.conf), which attaches the network of 10-lab.conflist, and that lacks istio-cni: set CNI_CONF_NAME to 10-lab.conflist"
    When somebody writes "00-multus.conf":
      """
      {"name": "multus", "type": "multus", "clusterNetwork": "<directory>/20-other.conflist"}
      """
    Then the node agent becomes ready within 10 s

    Examples:
      | kind  | directory            |
      | thin  | /etc/cni/net.d       |
      | thick | /host/etc/cni/net.d  |

  @mutant:multus-unread
  Scenario: The agent is not ready while Multus names a file that is gone
    Given Multus thick is installed
    And the node agent's setting "CNI_CONF_NAME" is "20-other.conflist"
    And somebody writes "20-other.conflist":
      """
      {"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "lab-net"}]}
      """
    And the node agent is on the host's network
    And the node agent is deployed
    When somebody removes "10-lab.conflist"
    Then the node agent is not ready: "attaches the network of 10-lab.conflist, and it is not there"

  @mutant:multus-file-unread
  Scenario: The agent is not ready while the daemon of Multus and its file are away (multus-1527)
    SIGTERM makes the daemon remove its file. Runtimes then read the default network's, and a pod that starts gets nothing else.

    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus thick is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its networks are default/istio-cni
    When Multus' daemon is stopped
    Then the node agent is not ready: "no pod gets istio-cni: runtimes read 10-lab.conflist first in /etc/cni/net.d, and not Multus' file"
    When Multus' daemon is there again, and sees "/etc/cni/multus/net.d"
    Then the node agent becomes ready within 10 s
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:multus-file-unread
  Scenario: The file of the daemon of Multus comes and goes with the readiness indicator
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus' configuration has "readinessindicatorfile" = "/run/multus/cni/ready"
    And Multus thick is installed, and sees "/etc/cni/multus/net.d"
    When the node agent is deployed
    Then the node agent is not ready: "and not Multus' file"
    When the default network says that it is ready in "/run/multus/cni/ready"
    Then the node agent becomes ready within 10 s
    When somebody removes "/run/multus/cni/ready"
    Then the node agent is not ready: "and not Multus' file"

  @mutant:multus-looks-elsewhere
  Scenario: The agent is not ready while Multus looks for networks in another directory (multus-1238)
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus' configuration has "confDir" = "/host/etc/cni/net.d"
    And Multus thick is installed, and sees "/etc/cni/multus/net.d"
    When the node agent is deployed
    Then the node agent is not ready: "looks for networks in /host/etc/cni/net.d, not in /etc/cni/multus/net.d"

  @mutant:standalone-chained
  Scenario: A file of our own is in its directory
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the node agent's setting "CHAINED_CNI_PLUGIN" is "false"
    And the node agent's setting "CNI_CONF_NAME" is "istio-cni.conf"
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And "/etc/cni/multus/net.d/istio-cni.conf" of the node contains "'type': 'istio-cni'"
    And the conflist "10-lab.conflist" is as it was
    When the DaemonSet is deleted
    Then "/etc/cni/multus/net.d/istio-cni.conf" of the node is not there for 2 s

  @mutant:binary-not-kept
  Scenario Outline: A pod that Multus <kind> attached outlives the agent, and can still be deleted
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus <kind> is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    And its networks are default/istio-cni
    And exposure of pod "cart" is measured
    And it runs
    Then TCP from "cart" to "outside" port 8080 passes 15001
    When the DaemonSet is deleted
    Then "/etc/cni/multus/net.d/istio-cni.conf" of the node is not there for 2 s
    And the plugin's binary is on the node
    And exposure of pod "cart" was 0
    When it is deleted
    Then its last sandbox was taken down
    And the plugin's last DEL succeeded

    Examples:
      | kind  |
      | thin  |
      | thick |

  @mutant:delegate-needs-result
  Scenario: A daemon that does not see our directory needs the configuration in the definition (multus-971)
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus thick is installed
    And the node agent is ready
    And pod "outside" outside the mesh
    And pod "basket" of the mesh
    And its networks are default/istio-cni
    Then it does not start: code 999, "No networks found in /etc/cni/multus/net.d"
    Given network "shop/istio-cni" is defined:
      """
      {"cniVersion": "0.3.1", "type": "istio-cni", "cni_agent_run_dir": "/var/run/istio-cni"}
      """
    And pod "cart" of the mesh
    And its networks are istio-cni
    When "cart" starts
    Then it runs
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:delegate-needs-result
  Scenario: While the daemon is away pods wait, and then they are redirected
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus thick is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And pod "outside" outside the mesh
    And it runs
    And pod "cart" of the mesh
    And its networks are default/istio-cni
    When Multus' daemon is killed
    Then it does not start: code 999, "CmdAdd (shim): timed out waiting for the condition"
    When Multus' daemon is there again, and sees "/etc/cni/multus/net.d"
    Then it comes up within 10 s
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:multus-unknown
  Scenario: Nothing starts before the default network says that it is ready (istio-22449)
    Given Multus' configuration has "readinessindicatorfile" = "/run/multus/cni/ready"
    And Multus thin is installed
    And the node agent's setting "CNI_CONF_NAME" is "10-lab.conflist"
    And the node agent is on the host's network
    And the node agent is deployed
    And pod "outside" outside the mesh
    And pod "cart" of the mesh
    Then it does not start: code 999, "still waiting for readinessindicatorfile @ /run/multus/cni/ready"
    When the default network says that it is ready in "/run/multus/cni/ready"
    Then it comes up within 10 s
    And the node agent becomes ready within 10 s
    And TCP from "cart" to "outside" port 8080 passes 15001

  @mutant:fail-open
  Scenario: What our plugin refuses, Multus refuses, without our code
    Given Multus thin is installed
    And the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And the node agent is ready
    And network "shop/istio-cni" is defined:
      """
      {"cniVersion": "0.3.1", "type": "istio-cni", "cni_agent_run_dir": "/var/run/nobody"}
      """
    And pod "cart" of the mesh
    And its networks are istio-cni
    Then it does not start: code 999, "error adding container to network "istio-cni""

  @mutant:binary-always-kept
  Scenario: What a daemon that was away did not detach keeps nothing
    Given the node agent's CNI directory is "/etc/cni/multus/net.d"
    And the chart's values are "chained=false, cniConfFileName=istio-cni.conf, provider=multus"
    And Multus thick is installed, and sees "/etc/cni/multus/net.d"
    And the node agent is ready
    And pod "cart" of the mesh
    And its networks are default/istio-cni
    And it runs
    When Multus' daemon is killed
    And it is deleted
    And the DaemonSet is deleted
    Then nothing of ours is left on the node

  @mutant:binary-always-kept
  Scenario: What Multus left of a pod that is long gone keeps nothing
    Given the node agent is ready
    And Multus left what it attached to a pod whose sandbox is gone
    When the DaemonSet is deleted
    Then nothing of ours is left on the node
