@real-kernel @install-cni
Feature: A list that has our entry already gets no second one (istio-27771; field S9 and S11; installer fault 12)
  An agent of another version was here before, or somebody wrote the entry by hand. What it says is replaced by what the settings say, in
  any schema that an agent ever wrote, and it is once there, at the end.

  @mutant:entry-unread
  Scenario Outline: An entry of <version>
    Given somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name": "lab", "plugins": [<entry>, {"type": "lab-net"}]}
      """
    And the node agent is on the host's network
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    And our entry in "10-lab.conflist" has "plugin_log_level" = "info"
    And our entry in "10-lab.conflist" has "exclude_namespaces" = ["kube-system"]
    And our entry in "10-lab.conflist" has no "kubernetes"
    And our entry in "10-lab.conflist" has no "log_level"
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" lists "lab-net"

    Examples:
      | version | entry                                                                                                                                                                                                                                                                                                                    |
      | 1.10    | {"type": "istio-cni", "name": "istio-cni", "log_level": "debug", "kubernetes": {"k8s_api_root": "https://10.96.0.1:443", "kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "intercept_type": "iptables", "node_name": "node-1", "exclude_namespaces": ["a"], "cni_bin_dir": "/opt/cni/bin"}}                      |
      | 1.11    | {"type": "istio-cni", "name": "istio-cni", "log_level": "debug", "log_uds_address": "/var/run/istio-cni/log.sock", "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "cni_bin_dir": "/opt/cni/bin", "exclude_namespaces": ["a"]}}                                                                  |
      | 1.21    | {"type": "istio-cni", "name": "istio-cni", "log_level": "info", "log_uds_address": "/var/run/istio-cni/log.sock", "ambient_enabled": false, "cni_event_address": "/var/run/istio-cni/pluginevent.sock", "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "exclude_namespaces": ["a"]}}            |
      | 1.22    | {"type": "istio-cni", "name": "istio-cni", "log_level": "info", "log_uds_address": "/var/run/istio-cni/log.sock", "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "exclude_namespaces": ["a"]}}                                                                                                  |
      | 1.23    | {"type": "istio-cni", "name": "istio-cni", "plugin_log_level": "debug", "kubernetes": {"kubeconfig": "/etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "cni_bin_dir": "/opt/cni/bin", "exclude_namespaces": ["a"]}}                                                                                                             |
      | 1.24    | {"type": "istio-cni", "name": "istio-cni", "plugin_log_level": "debug", "cni_agent_run_dir": "/elsewhere", "exclude_namespaces": ["a"]}                                                                                                                                                                                  |
      | 1.26    | {"type": "istio-cni", "name": "istio-cni", "plugin_log_level": "debug", "cni_agent_run_dir": "/elsewhere", "ambient_enabled": false, "exclude_namespaces": ["a"], "pod_namespace": "istio-system", "ipam": {}, "dns": {}}                                                                                                |
      | 1.29    | {"type": "istio-cni", "name": "istio-cni", "plugin_log_level": "debug", "cni_agent_run_dir": "/elsewhere", "ambient_enabled": false, "enablement_selectors": [], "exclude_namespaces": ["a"], "pod_namespace": "istio-system", "native_nftables": false, "enable_ambient_detection_retry": false, "ipam": {}, "dns": {}} |

  @mutant:doubles-kept
  Scenario: Two entries become one, and none is left behind
    Given somebody writes "10-lab.conflist":
      """
      {"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "istio-cni"}, {"type": "lab-net"}, {"type": "istio-cni"}]}
      """
    And the node agent is on the host's network
    When the node agent is deployed
    Then the node agent becomes ready within 10 s
    And the conflist "10-lab.conflist" lists "lab-net, istio-cni"
    When the DaemonSet is deleted
    Then the conflist "10-lab.conflist" lists "lab-net"
