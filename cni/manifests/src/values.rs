// SPDX-License-Identifier: Apache-2.0
//! The values of one installation, with all defaults filled in: what every input becomes and both renderings start from.

mod parts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use parts::{
    AdmissionPolicy, Ambient, Backend, Fallback, Global, Logging, NetworkPolicy, PodSelector, Provider,
    Repair, ResourceQuotas, Scope, StatusGate, Taint, TaintMode,
};

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
    pub cni_conf_file_name: String,
    pub cni_netns_dir: String,
    pub cni_cache_dir: String,
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
