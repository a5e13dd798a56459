// SPDX-License-Identifier: Apache-2.0
//! Orders of the outer process to the first process of the sandbox: everything that was decided outside.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::path::PathBuf;

use cluster::NodeIdentity;
use serde::{Deserialize, Serialize};

use crate::binaries::PLUGIN;
use crate::cli::{Choice, NodeApi, RealArgs, RunArgs, UpArgs};
use crate::drawn::Drawn;
use crate::portable::MILLRACE;
use crate::product::Product;
use crate::suite::Checkout;
use crate::verdict::Record;

/// Privilege of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// Root: pid, mount and network namespaces.
    Root,
    /// The same below a user namespace.
    UserNamespace {
        /// `/proc/self/uid_map`, and where it comes from.
        mapping: String,
    },
    /// Namespaces were denied; nothing that needs a kernel can run.
    Denied {
        /// Attempt and its error.
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// File name.
    pub name: String,
    /// Path.
    pub path: PathBuf,
    /// Output of `--version`, which a sandbox asks for; empty where none did.
    pub version: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// True if it has no interpreter.
    pub is_static: bool,
}

/// System under test: a directory, its binaries, and what is claimed of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sut {
    pub dir: PathBuf,
    /// Binaries: the plugin, then others.
    pub binaries: Vec<Binary>,
    /// Claims.
    pub product: Product,
    /// True if the directory is the sandbox's own copy.
    #[serde(default)]
    pub is_sealed: bool,
    /// Digest of the sources that the binaries were built of; empty for files, and where defects are planted.
    #[serde(default)]
    pub built_of: String,
}

impl Sut {
    /// The plugin that is installed in somebody's cluster, which nobody here has a file of. It claims what these nodes were found to have.
    #[must_use]
    pub fn of_cluster(nodes: &[NodeIdentity]) -> Self {
        let dir = PathBuf::from("the cluster");
        let mut product = Product::of_directory(&dir, &[PLUGIN]);
        product.version = found(nodes);
        if nodes.is_empty() || !nodes.iter().all(|node| node.is_millrace) {
            product.claims.retain(|claim| claim != MILLRACE);
            product
                .unsupported
                .insert(MILLRACE.to_owned(), "no Millrace plugin on each of the nodes".to_owned());
        }
        Self { dir, binaries: Vec::new(), product, is_sealed: false, built_of: String::new() }
    }
}

/// Images of the node agent and digests of the plugin on nodes, each once.
fn found(nodes: &[NodeIdentity]) -> String {
    let images = nodes.iter().flat_map(|node| node.agents.iter().map(|agent| agent.image.clone()));
    let plugins = nodes.iter().filter_map(|node| Some(format!("{PLUGIN} sha256:{}", node.plugin.as_ref()?)));
    let all: BTreeSet<_> = images.chain(plugins).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// Defects of a run, as far as they are known before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Mutants {
    /// Those that are played: of the catalogue, and named by a selected scenario.
    pub played: Vec<String>,
    /// Names in scenarios that the catalogue lacks.
    pub unplanted: Vec<String>,
    /// Names in the catalogue that no scenario uses.
    pub unnamed: Vec<String>,
    /// Step that must catch a defect, where the catalogue names one.
    pub steps: BTreeMap<String, String>,
    /// Scenarios that passed without a defect in an earlier run.
    pub controls: Vec<Record>,
}

/// Orders of the first process of the sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    /// Task.
    pub task: Task,
    pub place: Place,
}

/// Task in a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Run(Box<Plan>),
    Up(Box<UpPlan>),
    /// Report the capabilities of the environment.
    Doctor {
        /// Optional tools count as well.
        strict: bool,
        /// Why binaries that are built here are not those that ship, if they are not.
        without_musl: Option<String>,
    },
}

impl Task {
    /// True if something of it is a real component.
    #[must_use]
    pub fn is_of_real_components(&self) -> bool {
        match self {
            Self::Run(plan) => plan.real.is_some(),
            Self::Up(plan) => plan.real.is_some(),
            Self::Doctor { .. } => false,
        }
    }

    /// True if nothing of it may be root on this machine.
    #[must_use]
    pub fn is_nobodys_root(&self) -> bool {
        matches!(self, Self::Run(plan) if plan.args.user_namespace)
    }

    /// True if it is played in somebody's cluster: all that it needs of the suite is where the outer process has put it.
    #[must_use]
    pub fn is_in_a_cluster(&self) -> bool {
        matches!(self, Self::Run(plan) if plan.args.kubeconfig.is_some())
    }
}

/// A cluster that stays, decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpPlan {
    /// Command line.
    pub args: UpArgs,
    /// Path of the kubeconfig, absolute.
    pub kubeconfig: PathBuf,
    pub sut: Sut,
    /// Binary of the lab's pods.
    pub workload: PathBuf,
    /// Its real components, if it is of any.
    pub real: Option<Real>,
    /// Descriptor of the API's listener, which is in the user's network namespace.
    pub listener: RawFd,
}

/// A cluster that is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WantedCluster {
    /// None where nodes are embedded: it is a control plane for each scenario then.
    pub nodes: u8,
    pub choice: Choice,
    pub api: NodeApi,
    /// File for the calls of the network's first plugin.
    pub record: Option<PathBuf>,
}

impl WantedCluster {
    /// The one of a run, if anything of it is a real component.
    #[must_use]
    pub fn of(on: &RealArgs) -> Option<Self> {
        let &RealArgs { real, nodes, version, runtime, network, .. } = on;
        let nodes = if real { nodes } else { 0 };
        let choice = Choice { version, runtime, network };
        let cluster = Self { nodes, choice, api: on.api(), record: None };
        on.needs_components().then_some(cluster)
    }
}

/// Files that a cluster of real components is made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parts {
    /// Recipes, and the cache that has what they make.
    pub modules: PathBuf,
    pub cache: PathBuf,
    /// The node agent's image, as an archive; a cluster without nodes has none.
    pub agent: PathBuf,
}

/// A cluster of real components, decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Real {
    pub asked: WantedCluster,
    pub parts: Parts,
    /// Directory of all logs, absolute.
    pub logs: PathBuf,
    /// Name of its cgroups.
    pub cgroup: String,
}

/// The sandbox, as the outer process made it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// Privilege, or why there is no sandbox.
    pub privilege: Privilege,
    /// Pid of its first process in the outer pid namespace.
    pub outer_pid: u32,
}

impl Place {
    /// True if there are namespaces at all.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        !matches!(self.privilege, Privilege::Denied { .. })
    }
}

/// A run, decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Command line.
    pub args: RunArgs,
    pub root: PathBuf,
    /// Directory of the reports, absolute.
    pub report_dir: PathBuf,
    pub sut: Sut,
    /// Why binaries that were built for this run are not those that ship, if they are not.
    pub without_musl: Option<String>,
    /// Defects to play.
    pub mutants: Option<Mutants>,
    /// Real components, if the run starts any: the cluster that all scenarios run in, or a control plane for each of them.
    pub real: Option<Real>,
    /// Binary of the lab's pods.
    pub workload: PathBuf,
    pub seed: u64,
    /// Concurrent scenarios.
    pub jobs: usize,
    /// Commit of the suite.
    pub checkout: Option<Checkout>,
    /// Descriptor of the journal, if the outer process reads one.
    pub journal: Option<RawFd>,
}

impl Plan {
    /// Names that the run draws, if it does.
    #[must_use]
    pub fn drawn(&self) -> Option<Drawn> {
        self.args.randomize_names.then(|| Drawn::new(self.seed))
    }

    /// Seed in the command line's form.
    #[must_use]
    pub fn seed_text(&self) -> String {
        format!("{:016x}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(plugin: Option<&str>, is_millrace: bool) -> NodeIdentity {
        serde_json::from_value(serde_json::json!({
            "name": "n", "kernel": "6.1", "architecture": "amd64", "distribution": "D", "runtime": "r", "kubelet": "v1",
            "plugin": plugin, "is_millrace": is_millrace,
            "agents": [{"daemonset": "istio-system/istio-cni-node", "container": "install-cni", "image": "pilot:1", "image_id": "sha256:1"}],
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_claims_what_its_nodes_have() {
        let claims = |nodes: &[NodeIdentity]| Sut::of_cluster(nodes).product.claims;
        let (ours, theirs, none) = (node(Some("aa"), true), node(Some("bb"), false), node(None, false));
        assert_eq!(claims(std::slice::from_ref(&ours)), [PLUGIN, MILLRACE]);
        for nodes in [&[][..], std::slice::from_ref(&theirs), &[none], &[ours.clone(), theirs.clone()]] {
            assert_eq!(claims(nodes), [PLUGIN]);
        }
        assert_eq!(
            Sut::of_cluster(&[ours, theirs]).product.version,
            "istio-cni sha256:aa, istio-cni sha256:bb, pilot:1"
        );
    }
}
