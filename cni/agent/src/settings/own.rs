// SPDX-License-Identifier: Apache-2.0
//! The agent's own pod.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use manifests::setting::Setting;
use manifests::table;
use redirect::skip::{Exclusions, NamedPod, SkipReason, precheck};

use super::build::{NodeFacts, Reader};

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
    /// True if its name and its namespace are given.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.name.is_empty() && !self.namespace.is_empty()
    }

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

impl Reader<'_> {
    pub(super) fn own(&self, found: &NodeFacts) -> OwnPod {
        let said = |keys: &[&'static Setting]| {
            keys.iter().map(|key| self.text(key)).find(|text| !text.is_empty()).unwrap_or_default()
        };
        let namespace = Some(said(&[&table::POD_NAMESPACE])).filter(|text| !text.is_empty());
        OwnPod {
            namespace: namespace.unwrap_or_else(|| found.account_namespace.clone()),
            name: said(&[&table::POD_NAME]),
            node: said(&[&table::NODE, &table::KUBERNETES_NODE, &table::REPAIR_NODE]),
            daemonset: said(&[&table::DAEMONSET]),
        }
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
