// SPDX-License-Identifier: Apache-2.0
//! What a report is about: suite, product, machine, selection.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cluster::{NodeIdentity, Probe};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::carried::SELF;
use crate::catalogue::Ids;
use crate::cli::Selection;
use crate::machine::Machine;
use crate::plan::{Binary, Place, Plan, Privilege};
use crate::product::{Product, Source};
use crate::suite::{Checkout, Digests};

/// Product under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// As its description says; a directory's path, if it has none.
    pub name: String,
    pub version: String,
    /// Claimed capabilities.
    pub capabilities: Vec<String>,
    /// Texts in messages of level `error` that it excuses in any scenario, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
    /// Its description, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Value>,
    /// Files that the description consists of: itself, that which it is deployed like, and objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Source>,
}

impl Tested {
    fn new(product: &Product) -> Self {
        let Product { name, version, claims, errors, description, sources, .. } = product.clone();
        Self { name, version, capabilities: claims, errors, description, files: sources }
    }
}

/// Suite, system and environment of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the lab.
    pub suite: String,
    pub digests: Digests,
    /// Commit of the suite; `None` outside of a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<Checkout>,
    /// Command line without the program's name.
    pub command: Vec<String>,
    /// Begin of the run, in UTC (RFC 3339).
    pub began: String,
    /// End of the run, in UTC (RFC 3339); empty while it runs.
    pub ended: String,
    pub tier: String,
    /// Release of the kernel that scenarios run on, or of those of a cluster's nodes.
    pub kernel: String,
    /// Machine that ran the lab.
    pub machine: Machine,
    /// Nodes of a cluster, with what is installed there, at the begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeIdentity>,
    /// The same at the end, if it differs: the run is inconclusive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_at_end: Vec<NodeIdentity>,
    /// The back end that is right on this machine, by a look into a namespace of its own.
    pub back_end: String,
    pub seed: String,
    /// Seed of the delays of the lab's actors, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos: Option<String>,
    /// Runs of each scenario, if there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress: Option<u16>,
    /// Most further runs of a scenario that did not pass, if there were to be any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u16>,
    pub product: Tested,
    pub binaries: Vec<Binary>,
    /// Privilege of the sandbox.
    pub privilege: Privilege,
    /// Capabilities of the environment.
    pub probes: Vec<Probe>,
    /// Concurrent scenarios.
    pub jobs: usize,
    /// Selection of scenarios: empty for all.
    pub selection: Selection,
    /// That selection, resolved.
    pub ids: Ids,
}

impl Header {
    /// Gathers everything known before the first scenario.
    pub fn new(plan: &Plan, place: &Place, on: On, ids: Ids) -> anyhow::Result<Self> {
        let machine = Machine::read();
        Ok(Self {
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            digests: Digests::of(&plan.root, Path::new(SELF), &plan.workload, plan.sut.built_of.clone())?,
            checkout: plan.checkout.clone(),
            command: plan.args.command.clone(),
            began: now(),
            ended: String::new(),
            tier: on.tier.to_owned(),
            kernel: kernel(&on.nodes).unwrap_or_else(|| machine.kernel.clone()),
            machine,
            nodes: on.nodes,
            nodes_at_end: Vec::new(),
            back_end: on.back_end,
            seed: plan.seed_text(),
            chaos: plan.args.chaos.map(|seed| format!("{seed:x}")),
            stress: plan.args.stress,
            retries: plan.args.retries,
            product: Tested::new(&plan.sut.product),
            binaries: plan.sut.binaries.clone(),
            privilege: place.privilege.clone(),
            probes: on.probes,
            jobs: plan.jobs,
            selection: plan.args.selection.clone(),
            ids,
        })
    }

    /// First line of a run's output.
    #[must_use]
    pub fn line(&self) -> String {
        let about = |Binary { name, version, sha256, .. }: &Binary| {
            format!("{name} {version} (sha256 {}…)", sha256.get(..8).unwrap_or(sha256))
        };
        let binaries: Vec<_> = self.binaries.iter().map(about).collect();
        format!(
            "cnilab {} · {} · kernel {} · back end {} · seed {} · {}",
            self.suite,
            self.tier,
            self.kernel,
            self.back_end,
            self.seed,
            binaries.join(" · "),
        )
    }
}

/// What a run is played on.
#[derive(Debug)]
pub struct On {
    pub tier: &'static str,
    pub probes: Vec<Probe>,
    pub back_end: String,
    pub nodes: Vec<NodeIdentity>,
}

/// Kernels of nodes, each once.
fn kernel(nodes: &[NodeIdentity]) -> Option<String> {
    let all: BTreeSet<_> = nodes.iter().map(|node| node.kernel.as_str()).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

/// This moment in UTC, to the millisecond.
#[must_use]
pub fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
