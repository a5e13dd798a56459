// SPDX-License-Identifier: Apache-2.0
//! Identity of a cluster's nodes and of what is installed on them.

use serde::{Deserialize, Serialize};

/// A node, with what is installed there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeIdentity {
    /// Name.
    pub name: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Architecture, as Kubernetes spells it.
    pub architecture: String,
    /// Name of its distribution.
    pub distribution: String,
    /// Name and version of its container runtime.
    pub runtime: String,
    /// Version of its kubelet.
    pub kubelet: String,
    /// SHA-256 of its `/opt/cni/bin/istio-cni`, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// True if that is Millrace's: its configuration has keys of its own.
    pub is_millrace: bool,
    /// Node agents that run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentIdentity>,
}

/// A container of the node agent's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentIdentity {
    /// Namespace and name of its DaemonSet.
    pub daemonset: String,
    /// Name.
    pub container: String,
    /// Reference of its image.
    pub image: String,
    /// Digest of the image, as the runtime reports it.
    pub image_id: String,
    /// SHA-256 of the program of its first process, if that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
}
