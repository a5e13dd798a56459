// SPDX-License-Identifier: Apache-2.0
//! What a feature can ask of a node's container runtime and of what stands beside it: calls of the whole chain, the node's
//! directories, the stand-in for the agent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A call that the runtime makes of a whole chain, outside of a pod's usual life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeCall {
    /// ADD again for a pod that runs.
    Add(PodName),
    /// CHECK of a pod that runs.
    Check(PodName),
    /// DEL of a pod's sandbox, without the pod's end.
    Del(PodName),
    /// STATUS.
    Status,
    /// GC with exactly the running sandboxes as valid attachments.
    Gc,
}

/// Namespace and name of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl PodName {
    /// The pod `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Why a chain failed, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ChainFailure {
    /// The plugin that failed; `None` if the runtime gave up by itself.
    pub plugin: Option<String>,
    /// The CNI error's code, if the plugin gave one.
    pub code: Option<u32>,
    /// The runtime's message.
    pub message: String,
}

/// The directories of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePaths {
    /// Network configurations, as `/etc/cni/net.d`.
    pub conf_dir: PathBuf,
    /// Plugins, as `/opt/cni/bin`.
    pub bin_dir: PathBuf,
    /// The runtime's cache, as `/var/lib/cni`.
    pub cache_dir: PathBuf,
    /// What the agent shares with the plugin, as `/var/run/istio-cni`.
    pub run_dir: PathBuf,
    /// Pods' network namespaces, as `/var/run/netns`.
    pub netns_dir: PathBuf,
}

/// A program that somebody runs on a node beside what its pods run: a tool under test, or one of the system's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errand {
    /// The program and its arguments. A binary of the system under test goes before one of the same name in `PATH`.
    pub words: Vec<String>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The network namespace that it runs in; the node's own if absent.
    pub netns: Option<String>,
    /// User and group. Only root may do anything.
    pub owner: (u32, u32),
}

/// What listens on the agent's socket of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentStandIn {
    /// Nothing; there is no socket.
    #[default]
    Absent,
    /// One that serves every pod of the node.
    Serving,
    /// One that accepts and never answers.
    Silent,
    /// One that answers what is not JSON.
    Garbage,
    /// One that knows no request.
    Old,
    /// One that answers with another pod's UID.
    WrongUid,
}
