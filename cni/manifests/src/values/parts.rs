// SPDX-License-Identifier: Apache-2.0
//! Values that stand in groups, and those that are one of a few words.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `logging`, at the root and in `global`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Logging {
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
pub enum Scope {
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
    pub logging: Logging,
    pub log_as_json: bool,
    pub network_policy: NetworkPolicy,
    pub resource_scope: Scope,
    pub platform: String,
    pub profile: String,
    pub compatibility_version: String,
}
