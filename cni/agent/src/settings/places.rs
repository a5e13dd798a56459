// SPDX-License-Identifier: Apache-2.0
//! Directories of the agent's container and of the node.

use std::path::PathBuf;

use manifests::table;

use super::build::{ACCOUNT_DIR, Reader};

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

impl Places {
    /// Token of the agent's service account.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.account_dir.join("token")
    }
}

impl Reader<'_> {
    pub(super) fn places(&self) -> Places {
        Places {
            source_dir: "/opt/cni/bin".into(),
            target_dirs: vec!["/host/opt/cni/bin".into()],
            net_dir: self.path(&table::NET_DIR),
            run_dir: self.path(&table::RUN_DIR),
            account_dir: ACCOUNT_DIR.into(),
            netns_dir: "/host/var/run/netns".into(),
            node_netns_dir: self.path(&table::NETNS_DIR),
            cache_dir: "/host/var/lib/cni".into(),
            proc_dir: "/host/proc".into(),
        }
    }
}
