// SPDX-License-Identifier: Apache-2.0
//! A node's container runtime and its neighbours: calls of the whole chain, the node's directories, the stand-in for the agent.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::SYSTEM_NAMESPACE;

/// A call that the runtime makes of a whole chain, outside of a pod's usual life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeCall {
    /// CHECK of a pod that runs.
    Check(PodName),
    /// DEL of a pod's sandbox, without the pod's end.
    Del(PodName),
    /// STATUS.
    Status,
    /// GC with exactly the running sandboxes as valid attachments.
    Gc,
}

/// Lines of a container's log that a look takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Of all its processes so far.
    Ever,
    /// Of the process that lives now, from this time on.
    Since(SystemTime),
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

    /// The pod `name` in [`SYSTEM_NAMESPACE`].
    #[must_use]
    pub fn in_system(name: &str) -> Self {
        Self::new(SYSTEM_NAMESPACE, name)
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// Failure of a chain, as the runtime reports it.
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
    /// Directory shared by agent and plugin, as `/var/run/istio-cni`.
    pub run_dir: PathBuf,
    /// Pods' network namespaces, as `/var/run/netns`.
    pub netns_dir: PathBuf,
}

impl Default for NodePaths {
    /// Where a node has them unless somebody moved them.
    fn default() -> Self {
        Self {
            conf_dir: "/etc/cni/net.d".into(),
            bin_dir: "/opt/cni/bin".into(),
            cache_dir: "/var/lib/cni".into(),
            run_dir: "/var/run/istio-cni".into(),
            netns_dir: "/var/run/netns".into(),
        }
    }
}

/// Differences of the kernel under the plugin, and of its view of files, from the real ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Missing features.
    pub without: Vec<Lack>,
    /// Files that nobody may open, with all that is below them; relative ones start at the node's own root.
    pub deny: Vec<PathBuf>,
    /// Permission to enter namespaces.
    pub entering: Entering,
    /// Permission to write files.
    pub files: Files,
    /// The system call at which the plugin is killed, counted from the first in the pod's namespace.
    pub kill_at: Option<u32>,
}

/// A feature that a kernel may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lack {
    /// The netfilter netlink sub-system (`CONFIG_NETFILTER_NETLINK`), and nf_tables with it.
    Nfnetlink,
    /// nf_tables (`CONFIG_NF_TABLES`).
    NfTables,
    /// iptables' extensions in nf_tables (`CONFIG_NFT_COMPAT`).
    NftCompat,
    /// nat chains of nf_tables (`CONFIG_NFT_NAT`).
    NftNat,
    /// IPv6 (`CONFIG_IPV6`), and with it nf_tables' families `ip6` and `inet`.
    Ipv6,
    /// Legacy iptables (`CONFIG_IP_NF_IPTABLES`).
    IpTables,
    /// The nat table of legacy iptables (`CONFIG_IP_NF_NAT`), while others may be there.
    LegacyNat,
}

/// Unknown name of a kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is nothing that a kernel may lack")]
pub struct UnknownLack(pub String);

impl FromStr for Lack {
    type Err = UnknownLack;

    fn from_str(text: &str) -> Result<Self, UnknownLack> {
        let found = Self::ALL.into_iter().find(|lack| lack.name() == text);
        found.ok_or_else(|| UnknownLack(text.to_owned()))
    }
}

impl Lack {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Nfnetlink,
        Self::NfTables,
        Self::NftCompat,
        Self::NftNat,
        Self::Ipv6,
        Self::IpTables,
        Self::LegacyNat,
    ];

    /// The name in features.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nfnetlink => "nfnetlink",
            Self::NfTables => "nf-tables",
            Self::NftCompat => "nft-compat",
            Self::NftNat => "nft-nat",
            Self::Ipv6 => "ipv6",
            Self::IpTables => "ip-tables",
            Self::LegacyNat => "legacy-nat",
        }
    }
}

/// Permission to write files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Files {
    /// As usual.
    #[default]
    Writable,
    /// Every file system is mounted read-only.
    ReadOnly,
}

/// Permission to enter namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entering {
    /// As usual.
    #[default]
    Allowed,
    /// Denied to everybody.
    Forbidden,
}

/// Listener on the agent's socket of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentStandIn {
    /// Nothing; there is no socket.
    #[default]
    Absent,
    /// Serves every pod of the node.
    Serving,
    /// Accepts and never answers.
    Silent,
    /// Answers with malformed JSON.
    Garbage,
    /// Rejects every request as unsupported.
    Old,
    /// Answers with another pod's UID.
    WrongUid,
}

/// Installer of the plugin under test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Installed {
    /// The lab: binary, credentials and configuration are there from the start.
    #[default]
    ByLab,
    /// The agent under test; a node has nothing but its own network at first.
    ByAgent,
}

/// The lab's base plugin.
pub const BASE_PLUGIN: &str = "lab-net";

/// File of a node's default network.
pub const PRIMARY: &str = "10-lab.conflist";

/// File name of the plugin's kubeconfig in the run directory.
pub const KUBECONFIG: &str = "istio-cni-kubeconfig";
