// SPDX-License-Identifier: Apache-2.0
//! The values of one installation, with all defaults filled in: what every input becomes and both renderings start from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// JSON object.
pub type Object = serde_json::Map<String, Value>;

/// Helm's release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Name.
    pub name: String,
    pub namespace: String,
}

impl Default for Release {
    fn default() -> Self {
        Self { name: "istio-cni".to_owned(), namespace: "istio-system".to_owned() }
    }
}

/// Variables of the agent that are fields of its own pod.
pub(crate) const POD_FIELDS: [(&str, &str); 4] = [
    ("NODE_NAME", "spec.nodeName"),
    ("POD_NAME", "metadata.name"),
    ("POD_NAMESPACE", "metadata.namespace"),
    ("REPAIR_NODE_NAME", "spec.nodeName"),
];

/// The values. What each is for is told in [`crate::table`].
#[expect(clippy::struct_excessive_bools, reason = "the chart's switches are independent of each other")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Values {
    #[serde(skip)]
    pub release: Release,
    /// All of them, as they were resolved: what is only written to the `ConfigMap` has no field here.
    #[serde(skip)]
    pub all: Value,
    /// The server lacks `securityContext.appArmorProfile` and `ValidatingAdmissionPolicy`, which Kubernetes has since 1.30.
    #[serde(skip)]
    pub is_before_1_30: bool,
    pub enabled: bool,
    pub platform: String,
    pub profile: String,
    pub compatibility_version: String,
    pub hub: String,
    pub tag: String,
    pub variant: String,
    pub image: String,
    pub pull_policy: String,
    pub logging: Logging,
    pub cni_bin_dir: String,
    pub cni_conf_dir: String,
    pub cni_more_bin_dir: String,
    pub multus_conf_dir: String,
    pub cni_conf_file_name: String,
    pub kubeconfig_mode: String,
    pub cni_netns_dir: String,
    pub cni_cache_dir: String,
    pub cri_socket: String,
    pub chained: bool,
    pub provider: Provider,
    #[serde(rename = "istioOwnedCNIConfig")]
    pub istio_owned_cni_config: bool,
    #[serde(rename = "istioOwnedCNIConfigFileName")]
    pub istio_owned_cni_config_file_name: String,
    pub backend: Backend,
    pub iptables_tools: bool,
    pub host_network: bool,
    pub status_gate: StatusGate,
    pub ambient: Ambient,
    pub repair: Repair,
    pub taint: Taint,
    pub admission_policy: AdmissionPolicy,
    pub seccomp_profile: Object,
    pub se_linux_options: Object,
    pub use_app_armor_annotation: Option<bool>,
    pub resources: Object,
    pub resource_quotas: ResourceQuotas,
    pub tolerations: Vec<Value>,
    pub update_strategy: Object,
    pub termination_grace_period_seconds: u64,
    pub affinity: Object,
    pub pod_annotations: BTreeMap<String, String>,
    pub pod_labels: BTreeMap<String, String>,
    pub daemon_set_labels: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub revision: String,
    pub owner_name: String,
    pub global: Global,
}

/// `logging` at the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Logging {
    pub level: String,
    pub plugin_level: String,
}

/// `logging` in `global`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GlobalLogging {
    pub level: String,
}

/// Runner of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    Default,
    Multus,
}

/// Back end for rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    Auto,
    NftCompat,
    Nft,
    IptablesNft,
    IptablesLegacy,
}

/// Makes the node wait for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatusGate {
    #[serde(rename = "")]
    Off,
    #[serde(rename = "agent")]
    Agent,
}

/// `ambient`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ambient {
    pub enabled: bool,
    pub accept_unredirected: bool,
    pub share_host_network_namespace: bool,
}

/// Fallback for a pod that cannot be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    None,
    Delete,
    Label,
}

#[expect(clippy::struct_excessive_bools, reason = "the chart's switches are independent of each other")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    pub enabled: bool,
    pub repair_pods: bool,
    pub delete_pods: bool,
    pub label_pods: bool,
    pub fallback: Fallback,
    pub unredirected: bool,
    pub broken_pod_label_key: String,
}

/// Controller of the nodes' taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaintMode {
    #[serde(rename = "")]
    Off,
    Node,
    Readiness,
    Untaint,
}

/// Required pods of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSelector {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
    pub selector: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    pub mode: TaintMode,
    pub name: String,
    pub config: Vec<PodSelector>,
    pub replicas: u64,
    pub tolerations: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdmissionPolicy {
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceQuotas {
    pub enabled: bool,
    pub pods: u64,
}

/// `global.networkPolicy`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkPolicy {
    pub enabled: bool,
}

/// Rendered objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceScope {
    All,
    Cluster,
    Namespace,
}

/// `global`, of which other charts read more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Global {
    pub hub: String,
    pub tag: String,
    pub variant: String,
    pub image_pull_policy: String,
    pub image_pull_secrets: Vec<String>,
    pub logging: GlobalLogging,
    pub log_as_json: bool,
    pub network_policy: NetworkPolicy,
    pub resource_scope: ResourceScope,
    pub platform: String,
    pub profile: String,
    pub compatibility_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::{defaults, overlay};

    #[test]
    fn each_field_is_a_value_of_the_table() {
        let mut known = defaults();
        let values: Values = serde_json::from_value(known.clone()).unwrap();
        let typed = serde_json::to_value(values).unwrap();
        overlay(&mut known, &typed);
        assert_eq!(known, defaults());
    }
}
