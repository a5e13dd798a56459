@real-kernel
Feature: A configuration that an older agent wrote is understood (field S11)
  The plugin's binary is replaced before its entry is. Until then it reads what the agent of before wrote, in the schema of that time.

  @mutant:old-entry-unread
  Scenario Outline: Excluded namespaces in an entry of <version>
    Given the plugin's configuration has "exclude_namespaces" = null
    And the plugin's configuration has "kubernetes" = <kubernetes>
    And the plugin's configuration has <level>
    And pod "cart" of the mesh
    And it runs
    Then its namespace holds no rule
    And the API server was not asked for anything

    Examples:
      | version | kubernetes                                                                                                                                                    | level                                                       |
      | 1.10    | {"k8s_api_root": "https://10.96.0.1:443", "exclude_namespaces": ["shop"], "intercept_type": "iptables", "node_name": "node-1", "cni_bin_dir": "/opt/cni/bin"} | "log_level" = "debug"                                       |
      | 1.16    | {"exclude_namespaces": ["shop"], "cni_bin_dir": "/opt/cni/bin"}                                                                                               | "log_uds_address" = "/var/run/istio-cni/log.sock"           |
      | 1.21    | {"exclude_namespaces": ["shop"]}                                                                                                                              | "cni_event_address" = "/var/run/istio-cni/pluginevent.sock" |
      | 1.22    | {"exclude_namespaces": ["shop"], "intercept_type": "iptables"}                                                                                                | "log_level" = "debug"                                       |
      | 1.23    | {"exclude_namespaces": ["shop"], "cni_bin_dir": "/opt/cni/bin"}                                                                                               | "plugin_log_level" = "debug"                                |
