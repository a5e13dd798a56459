// SPDX-License-Identifier: Apache-2.0
//! A scenario's world: its cluster, its pods, and what was seen. Each scenario has one of its own and shares nothing but
//! the [`Lab`], which never changes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

use cluster::{Answer, ChainFailure, Cluster as _, CniAnswer, PodStart, Traffic, Workload};
use cucumber::{World, gherkin};
use kubelet::netns::Namespace;
use netfilter::Snapshot;
use nix::fcntl::Flock;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::chart::Rendered;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::pod::Pod;
use crate::steps::agent::AgentPlan;
use crate::steps::call::CallPlan;
use crate::steps::configuration::Watched;
use crate::steps::manifests::HandedIn;
use crate::steps::observe::Observed;
use crate::steps::permissions::Attempt;
use crate::steps::rules::ForeignRule;
use crate::steps::taint::Taints;
use crate::stop::{Step, Stop};
use crate::tier::{NodePlan, Tier};
use crate::truth::compare::Findings;

/// What all scenarios of a run share.
#[derive(Debug)]
pub struct Lab {
    /// The orders.
    pub plan: Arc<Plan>,
    /// The features.
    pub catalogue: Arc<Catalogue>,
    /// The results.
    pub ledger: Ledger,
    /// What the program under test rendered.
    pub rendered: Rendered,
}

impl Lab {
    /// Puts it together.
    #[must_use]
    pub fn new(plan: Arc<Plan>, catalogue: Arc<Catalogue>, ledger: Ledger) -> Arc<Self> {
        Arc::new(Self { plan, catalogue, ledger, rendered: Rendered::default() })
    }
}

/// Traffic that a step sent, and who answered.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    /// The pod that sent it.
    pub from: String,
    /// What it sent.
    pub traffic: Traffic,
    /// Who answered.
    pub answer: Answer,
}

/// What the truth table at scale came to.
#[derive(Debug)]
pub struct Scale {
    /// All of it.
    pub findings: ::truth::Findings,
    /// Kinds of rules that no packet met and that are not listed, and the reverse.
    pub gaps: Vec<String>,
}

/// The world of one scenario.
#[derive(Default, World)]
pub struct LabWorld {
    lab: Option<Arc<Lab>>,
    /// The scenario's id.
    pub id: String,
    /// What the node is to be like, until it is needed.
    pub node: NodePlan,
    /// The cluster, once a step needed it.
    pub cluster: Option<Arc<Tier>>,
    /// Pods by name, started or not.
    pub pods: BTreeMap<String, Pod>,
    /// The pod that `it` means.
    pub it: String,
    /// How pods' starts ended.
    pub starts: BTreeMap<String, PodStart>,
    /// The last call of a plugin that a step made itself.
    pub answer: Option<CniAnswer>,
    /// What an operator hands to `install-cni manifests`.
    pub handed_in: HandedIn,
    /// What the runtime was told when a step made it call its chain.
    pub chain: Option<Result<Value, ChainFailure>>,
    /// A call of the plugin that steps put together.
    pub call: Option<CallPlan>,
    /// Rules of others, as they were before the plugin was called again.
    pub foreign: Vec<ForeignRule>,
    /// What the pod's namespace held before the plugin was called again.
    pub before: Option<Snapshot>,
    /// Rules of legacy iptables that the network left in pods, as `iptables-legacy-save` lists them.
    pub left: Vec<String>,
    /// Locks that are held, the last one at the end.
    pub locks: Vec<Flock<File>>,
    /// What the truth table came to.
    pub findings: Option<Findings>,
    /// What the table at scale came to.
    pub scale: Option<Scale>,
    /// The node's configurations of networks, where somebody watches them.
    pub watched: Option<Watched>,
    /// The node agent, as it is deployed.
    pub agent: AgentPlan,
    /// How the last request with the agent's token ended.
    pub attempt: Option<Attempt>,
    /// What steps about the agent's own word keep.
    pub observed: Observed,
    /// Taints of nodes, and who minds them.
    pub taints: Taints,
    /// Namespaces that steps made beside the pods' own.
    pub namespaces: Vec<Namespace>,
    /// All traffic so far.
    pub traffic: Vec<Sent>,
    /// Objects that steps created.
    pub objects: Vec<Value>,
    /// What a reader of the report should know.
    pub notes: Vec<String>,
}

impl fmt::Debug for LabWorld {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LabWorld")
            .field("id", &self.id)
            .field("starts", &self.starts)
            .finish_non_exhaustive()
    }
}

impl LabWorld {
    /// Tells the world which scenario it is of.
    pub fn begin(&mut self, lab: &Arc<Lab>, feature: &gherkin::Feature, scenario: &gherkin::Scenario) {
        self.lab = Some(Arc::clone(lab));
        if let Some(entry) = lab.catalogue.find(feature, scenario) {
            self.id.clone_from(&entry.id);
            self.node.mutant.clone_from(&entry.mutant);
        }
    }

    /// What all scenarios share.
    pub fn lab(&self) -> Result<Arc<Lab>, Stop> {
        self.lab.clone().ok_or_else(|| Stop::harness("a step ran before its scenario began"))
    }

    /// The cluster, made on first use.
    pub async fn cluster(&mut self) -> Result<Arc<Tier>, Stop> {
        if let Some(cluster) = &self.cluster {
            return Ok(Arc::clone(cluster));
        }
        let lab = self.lab()?;
        let made = Arc::new(Tier::start(&lab.plan, &self.id, &self.node).await?);
        self.cluster = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The pod that `it` means.
    pub fn it(&mut self) -> Result<&mut Pod, Stop> {
        let name = self.it.clone();
        self.pod(&name)
    }

    /// A pod by name.
    pub fn pod(&mut self, name: &str) -> Result<&mut Pod, Stop> {
        self.pods.get_mut(name).ok_or_else(|| Stop::harness(format!("no step has introduced pod {name:?}")))
    }

    /// A started pod's inside.
    pub async fn workload(&mut self, name: &str) -> Result<Box<dyn Workload>, Stop> {
        let namespace = self.pod(name)?.namespace.clone();
        Ok(self.cluster().await?.workload(&namespace, name).await?)
    }

    /// How a pod's start ended; it is started if no step has done so.
    pub async fn start(&mut self, name: &str) -> Result<PodStart, Stop> {
        if let Some(ended) = self.starts.get(name) {
            return Ok(ended.clone());
        }
        let object = self.pod(name)?.admitted().map_err(Stop::harness)?;
        self.objects.push(object.clone());
        let namespace = self.pod(name)?.namespace.clone();
        let ended = self.cluster().await?.start_pod(&namespace, name, object).await?;
        self.starts.insert(name.to_owned(), ended.clone());
        Ok(ended)
    }

    /// Starts a pod that is only there to be talked to; if it does not run, the harness is at fault or its plugin is.
    pub async fn run_pod(&mut self, name: &str) -> Step {
        match self.start(name).await? {
            PodStart::Running { .. } => Ok(()),
            other => Err(Stop::wrong(format!("pod {name:?} did not start: {other:?}"))),
        }
    }

    /// The answer of the last plugin call.
    pub fn answer(&self) -> Result<&CniAnswer, Stop> {
        self.answer.as_ref().ok_or_else(|| Stop::harness("no step has called a plugin"))
    }

    /// Takes the world down. What is left is said, because it would be there for the next scenario to trip over.
    pub async fn end(&mut self) -> Result<(), String> {
        self.namespaces.clear();
        self.agent.disk = None;
        self.agent.denials.clear();
        let Some(cluster) = self.cluster.take() else { return Ok(()) };
        let cluster = Arc::into_inner(cluster).ok_or("somebody still uses the cluster")?;
        self.notes.extend(cluster.end().await.map_err(|error| error.to_string())?);
        Ok(())
    }
}
