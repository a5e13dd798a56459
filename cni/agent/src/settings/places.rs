// SPDX-License-Identifier: Apache-2.0
//! Directories of the agent's container and of the node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manifests::table;

use super::build::{ACCOUNT_DIR, Reader};

/// Mounts of directories of plugins.
const BIN_DIR: &str = "/host/opt/cni/bin";
const MORE_BIN_DIR: &str = "/host/opt/cni/more";
/// Mount of the directory with Multus' own file.
const MULTUS_DIR: &str = "/host/multus/net.d";

/// Directories, as the agent's container sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The plugin's binary in the image: `/opt/cni/bin`.
    pub source_dir: PathBuf,
    /// Targets of the binary: `/host/opt/cni/bin`, and `/host/opt/cni/more` where `MILLRACE_NODE_MORE_BIN_DIR` names it.
    pub target_dirs: Vec<PathBuf>,
    /// `MOUNTED_CNI_NET_DIR`: `/host/etc/cni/net.d`.
    pub net_dir: PathBuf,
    /// `MILLRACE_NODE_MULTUS_DIR`: the directory that runtimes read, with Multus' own file, where our file is in another one:
    /// `/host/multus/net.d`.
    pub multus_dir: Option<PathBuf>,
    /// Paths on the node of the mounted directories, where they are known.
    pub on_node: BTreeMap<PathBuf, PathBuf>,
    /// `CNI_AGENT_RUN_DIR`, the same inside and on the host: `/var/run/istio-cni`.
    pub run_dir: PathBuf,
    pub account_dir: PathBuf,
    /// Namespaces of pods as bind mounts, where a template mounts them: `/host/var/run/netns`.
    pub netns_dir: PathBuf,
    /// `MILLRACE_NETNS_DIR`: the same as the node calls it; reached by way of the node's first process.
    pub node_netns_dir: PathBuf,
    /// The runtime's CNI result cache: `/host/var/lib/cni`.
    pub cache_dir: PathBuf,
    /// `MILLRACE_CRI_SOCKET`: the runtime's socket; `None`: it is not asked.
    pub cri_socket: Option<PathBuf>,
    /// The node's processes: `/host/proc`.
    pub proc_dir: PathBuf,
}

impl Places {
    /// A mounted directory as the node calls it, where that is known.
    #[must_use]
    pub fn shown<'a>(&'a self, directory: &'a Path) -> &'a Path {
        self.on_node.get(directory).map_or(directory, PathBuf::as_path)
    }

    /// Token of the agent's service account.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.account_dir.join("token")
    }
}

impl Reader<'_> {
    pub(super) fn places(&self) -> Places {
        let net_dir = self.path(&table::NET_DIR);
        let mounts = [
            (PathBuf::from(BIN_DIR), &table::NODE_BIN_DIR),
            (MORE_BIN_DIR.into(), &table::NODE_MORE_BIN_DIR),
            (net_dir.clone(), &table::NODE_NET_DIR),
            (MULTUS_DIR.into(), &table::NODE_MULTUS_DIR),
        ];
        let named = |(mount, key)| Some((mount, self.path(key))).filter(|(_, path)| path.is_absolute());
        let on_node: BTreeMap<PathBuf, PathBuf> = mounts.into_iter().filter_map(named).collect();
        let mounted = |mount: &str| on_node.contains_key(Path::new(mount)).then(|| PathBuf::from(mount));
        Places {
            source_dir: "/opt/cni/bin".into(),
            target_dirs: [BIN_DIR.into()].into_iter().chain(mounted(MORE_BIN_DIR)).collect(),
            multus_dir: mounted(MULTUS_DIR),
            on_node,
            net_dir,
            run_dir: self.path(&table::RUN_DIR),
            account_dir: ACCOUNT_DIR.into(),
            netns_dir: "/host/var/run/netns".into(),
            node_netns_dir: self.path(&table::NETNS_DIR),
            cache_dir: "/host/var/lib/cni".into(),
            cri_socket: Some(self.path(&table::CRI_SOCKET)).filter(|path| !path.as_os_str().is_empty()),
            proc_dir: "/host/proc".into(),
        }
    }
}
