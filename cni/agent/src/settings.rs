// SPDX-License-Identifier: Apache-2.0
//! The agent's settings: typed, complete, validated.
//!
//! | module | what |
//! |---|---|
//! | [`key`] | every key: names, kind, default, whether it can change while the agent runs |
//! | [`layers`] | precedence: flag, watched `ConfigMap`, environment, default |
//! | [`kind`], [`template`] | kinds of values |
//! | [`build`] | texts to [`Settings`] |
//! | [`mistake`] | a malformed value |
//! | [`change`] | changes that the running agent applies or rejects |
//! | [`load`] | the settings at the start |
//! | [`follow`] | the settings while the agent runs |
//! | [`effective`] | the same, for another process |

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use netfilter::Wish;
use redirect::skip::{Exclusions, NamedPod, SkipReason, precheck};

use crate::log::Levels;

pub mod build;
pub mod change;
pub mod effective;
pub mod follow;
pub mod key;
pub mod kind;
pub mod layers;
pub mod load;
pub mod mistake;
mod selectors;
pub mod template;

pub use layers::Origin;
pub use load::{Loaded, load};
pub use mistake::Mistake;

/// Every setting. Those of a group change together; which of them can change while the agent runs, the group says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Paths on the node. Fixed: they follow from mounts.
    pub places: Places,
    /// Placement of our entry. Live.
    pub chain: ChainSettings,
    /// Content of our entry. Live.
    pub entry: EntrySettings,
    /// The plugin's credentials. Live.
    pub kubeconfig: KubeconfigSettings,
    /// Repair. Live.
    pub repair: RepairSettings,
    /// The agent's own pod. Fixed.
    pub own: OwnPod,
    /// Logging. The levels are live.
    pub log: LogSettings,
    /// Port of `/metrics`; `None` disables it. Fixed.
    pub monitoring_port: Option<u16>,
    /// `AMBIENT_DISABLE_SAFE_UPGRADE`: uninstall whenever the agent stops.
    pub always_uninstall: bool,
    /// The key of the taint that the agent minds on its own node; `None` for not at all. Fixed.
    pub own_taint: Option<String>,
    /// Why our entry must not be written, for a person: values that nobody can guess. The runtime's configuration stays as it is, and the
    /// agent is not ready. Empty in the ordinary case.
    pub blocked: Vec<String>,
}

/// Directories, as the agent's container sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The plugin's binary in the image: `/opt/cni/bin`.
    pub source_dir: PathBuf,
    /// Targets of the binary: `/host/opt/cni/bin`.
    pub target_dirs: Vec<PathBuf>,
    /// `MOUNTED_CNI_NET_DIR`: `/host/etc/cni/net.d`.
    pub net_dir: PathBuf,
    /// `CNI_AGENT_RUN_DIR`, the same inside and on the host: `/var/run/istio-cni`.
    pub run_dir: PathBuf,
    pub account_dir: PathBuf,
    /// Namespaces of pods as bind mounts, where a template mounts them: `/host/var/run/netns`.
    pub netns_dir: PathBuf,
    /// `MILLRACE_NETNS_DIR`: the same as the node calls it; reached by way of the node's first process.
    pub node_netns_dir: PathBuf,
    /// The runtime's CNI result cache: `/host/var/lib/cni`.
    pub cache_dir: PathBuf,
    /// The node's processes: `/host/proc`.
    pub proc_dir: PathBuf,
}

/// Placement of our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSettings {
    /// `CNI_CONF_NAME`; empty for the first valid one (chained) or the default name (standalone).
    pub conf_name: String,
    /// `CHAINED_CNI_PLUGIN`
    pub chained: bool,
    /// `ISTIO_OWNED_CNI_CONFIG`
    pub owned: bool,
    /// `ISTIO_OWNED_CNI_CONFIG_FILENAME`, or the chart's spelling without "IG"; never empty.
    pub owned_name: String,
    /// `CNI_CONF_GROUP_READ`
    pub group_read: bool,
    /// `MILLRACE_RAISE_CNI_VERSION`: the list's cniVersion becomes 1.1.0 where every plugin of it can do that.
    pub raise_version: bool,
    /// `CNI_NETWORK_CONFIG(_FILE)`: a JSON object that is our entry, but for the keys that it lacks: those come from [`EntrySettings`].
    /// Its placeholders are replaced, its `type` is ours if it has one. Empty if there is none.
    pub template: String,
}

impl ChainSettings {
    /// File mode of files that we own.
    #[must_use]
    pub fn mode(&self) -> u32 {
        if self.group_read { 0o640 } else { 0o600 }
    }
}

/// Content of our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySettings {
    /// `plugin_log_level`
    pub log_level: String,
    /// `exclude_namespaces`, in the given order.
    pub exclude_namespaces: Vec<String>,
    /// `pod_namespace`
    pub pod_namespace: String,
    /// `ambient_enabled`
    pub ambient_enabled: bool,
    /// `enablement_selectors` as JSON text.
    pub enablement_selectors: String,
    /// `native_nftables`
    pub native_nftables: bool,
    /// `enable_ambient_detection_retry`
    pub ambient_detection_retry: bool,
    /// `millrace_status_gate: agent`
    pub status_gate: bool,
    /// `millrace_backend`; [`Wish::Auto`] is left out.
    pub backend: Wish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigSettings {
    /// `KUBERNETES_SERVICE_PROTOCOL`, `_HOST`, `_PORT`, as given.
    pub server: (String, String, String),
    /// `KUBE_CA_FILE`, else the service account's.
    pub ca_file: PathBuf,
    /// `SKIP_TLS_VERIFY`
    pub skip_verify: bool,
    /// `KUBECONFIG_MODE`
    pub mode: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// `--log_output_level`
    pub levels: Levels,
    /// `--log_as_json`
    pub json: bool,
}

/// Policy for a broken pod; the first that is on, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `REPAIR_REPAIR_PODS`
    Repair,
    /// `REPAIR_DELETE_PODS`
    Delete,
    /// `REPAIR_LABEL_PODS`
    Label,
}

/// Repair (upstream's keys are in the fields' names).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairSettings {
    /// `REPAIR_ENABLED`
    pub enabled: bool,
    /// Policies that are on; the first counts.
    pub policies: Vec<Policy>,
    /// Fallback for a pod that cannot be repaired: a policy, or `None` for the event alone (`MILLRACE_REPAIR_FALLBACK`).
    pub fallback: Option<Policy>,
    /// Apply the policy to unredirected pods without a failed validation container (`MILLRACE_REPAIR_UNREDIRECTED`).
    pub act_on_unredirected: bool,
    /// `REPAIR_NODE_NAME`, else [`OwnPod::node`]; empty if nobody says: no pod is looked at.
    pub node_name: String,
    /// `REPAIR_SIDECAR_ANNOTATION`
    pub sidecar_annotation: String,
    /// `REPAIR_INIT_CONTAINER_NAME`
    pub init_container: String,
    /// `REPAIR_INIT_CONTAINER_TERMINATION_MESSAGE`, trimmed.
    pub termination_message: String,
    /// `REPAIR_INIT_CONTAINER_EXIT_CODE`; 0 for any.
    pub exit_code: i32,
    /// `REPAIR_LABEL_SELECTORS`
    pub label_selectors: String,
    /// `REPAIR_FIELD_SELECTORS`
    pub field_selectors: String,
    /// `REPAIR_BROKEN_POD_LABEL_KEY` and `_VALUE`
    pub label: (String, String),
    /// The plugin's excluded namespaces.
    pub exclude_namespaces: BTreeSet<String>,
}

/// Identity of the agent's own pod; empty where unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnPod {
    /// `POD_NAMESPACE`, else the service account's.
    pub namespace: String,
    /// `POD_NAME`
    pub name: String,
    /// `NODE_NAME`, else `KUBERNETES_NODE_NAME`, else `REPAIR_NODE_NAME`.
    pub node: String,
    /// Owner of the pod: `MILLRACE_DAEMONSET_NAME`.
    pub daemonset: String,
    /// Node addresses, where known: never a pod's.
    pub node_addresses: Vec<IpAddr>,
}

/// Network namespace of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The node's: no CNI plugin runs for the pod.
    Node,
    /// A namespace of its own, or undetermined.
    Own,
}

impl Network {
    /// Compares with the node's first process.
    #[must_use]
    pub fn of_this_process(proc_dir: &Path) -> Self {
        let of = |process: &Path| {
            let found = fs::metadata(process.join("ns/net")).ok()?;
            Some((found.dev(), found.ino()))
        };
        match (of(Path::new("/proc/self")), of(&proc_dir.join("1"))) {
            (Some(own), Some(first)) if own == first => Self::Node,
            _ => Self::Own,
        }
    }
}

impl OwnPod {
    /// The agent's pod, or pods of its DaemonSet, by a name that the plugin does not know: off the node's network it then holds the agent's
    /// own pod up as any other until an agent answers, which after a reboot nobody does.
    #[must_use]
    pub fn unknown_name(&self, network: Network) -> Option<String> {
        if network == Network::Node {
            return None;
        }
        let of_set = || format!("{}-", self.daemonset);
        let name = Some(self.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(of_set);
        let pod = NamedPod { name: &name, namespace: &self.namespace };
        let exclusions = Exclusions { agent_namespace: &self.namespace, namespaces: &[] };
        (precheck(pod, exclusions) != Some(SkipReason::OwnAgentPod)).then_some(name)
    }
}

impl EntrySettings {
    /// Requested back end, as the plugin reads it from our entry.
    #[must_use]
    pub fn wish(&self) -> Wish {
        let Self { backend, native_nftables, .. } = *self;
        netfilter::backend::Settings { backend, native_nftables, forced_binary: None }.wish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, OwnPod};

    #[test]
    fn a_pod_whose_name_the_plugin_does_not_know_is_told() {
        let own = |name: &str, daemonset: &str| {
            let (name, daemonset) = (name.to_owned(), daemonset.to_owned());
            OwnPod { namespace: "mesh".to_owned(), name, daemonset, ..OwnPod::default() }
        };
        let unknown = |name: &str, daemonset: &str| own(name, daemonset).unknown_name(Network::Own);
        assert_eq!(unknown("istio-cni-node-x7k2p", "other"), None);
        assert_eq!(unknown("", "istio-cni-node"), None);
        assert_eq!(unknown("mesh-cni-x7k2p", "istio-cni-node").as_deref(), Some("mesh-cni-x7k2p"));
        assert_eq!(unknown("", "mesh-cni").as_deref(), Some("mesh-cni-"));
        assert_eq!(own("mesh-cni-x7k2p", "mesh-cni").unknown_name(Network::Node), None, "nobody asks");
    }

    #[test]
    fn the_nodes_network_is_that_of_its_first_process() {
        let proc_dir = tempfile::tempdir().unwrap();
        assert_eq!(Network::of_this_process(proc_dir.path()), Network::Own, "nobody can tell");
        std::os::unix::fs::symlink("/proc/self", proc_dir.path().join("1")).unwrap();
        assert_eq!(Network::of_this_process(proc_dir.path()), Network::Node);
    }
}
