// SPDX-License-Identifier: Apache-2.0
//! A scenario's world: its cluster, its pods, and what was seen. Each scenario has one of its own and shares nothing but
//! the [`Lab`], which never changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::hand::{Held, Kept};
use cluster::{
    Answer, ChainFailure, CniAnswer, LabError, Leftovers, LiveNetwork, NodePlan, PodName, PodStart, Traffic,
    Workload,
};
use cucumber::{World, gherkin};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::chart::Rendered;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::pod::Pod;
use crate::sealed::Sealed;
use crate::steps::agent::{self, AgentPlan};
use crate::steps::call::CallPlan;
use crate::steps::configuration::Watched;
use crate::steps::controllers::Made;
use crate::steps::events;
use crate::steps::exposure::Measure;
use crate::steps::manifests::HandedIn;
use crate::steps::marks::Marks;
use crate::steps::multus::MultusPlan;
use crate::steps::permissions::Attempt;
use crate::steps::pod_security::Answered;
use crate::steps::rules::ForeignRule;
use crate::steps::taint::Taints;
use crate::steps::traffic::captured::Captured;
use crate::stop::{Step, Stop};
use crate::tier::{Session, Tier};

/// Shared by all scenarios of a run.
#[derive(Debug)]
pub struct Lab {
    pub plan: Arc<Plan>,
    pub catalogue: Arc<Catalogue>,
    pub ledger: Ledger,
    /// Somebody's cluster, if scenarios run there.
    pub session: Option<Session>,
    /// Cache of renderings.
    pub rendered: Rendered,
    /// Files that must stay what they are.
    pub sealed: Arc<Sealed>,
}

impl Lab {
    #[must_use]
    pub fn new(
        plan: Arc<Plan>,
        catalogue: Arc<Catalogue>,
        ledger: Ledger,
        session: Option<Session>,
        sealed: Arc<Sealed>,
    ) -> Arc<Self> {
        let rendered = Rendered::with(plan.args.agent_image.as_deref());
        Arc::new(Self { plan, catalogue, ledger, session, rendered, sealed })
    }

    /// The same for other scenarios.
    #[must_use]
    pub fn of(&self, catalogue: Catalogue) -> Arc<Self> {
        let (plan, ledger, sealed) = (Arc::clone(&self.plan), self.ledger.clone(), Arc::clone(&self.sealed));
        Self::new(plan, Arc::new(catalogue), ledger, self.session.clone(), sealed)
    }
}

/// Traffic of a step, with its answer.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    pub from: String,
    pub traffic: Traffic,
    pub answer: Answer,
}

/// Result of the truth table.
#[derive(Debug)]
pub struct Judged {
    pub findings: ::truth::Findings,
    /// Kinds of rules that no packet met and that are not listed, and the reverse.
    pub gaps: Vec<String>,
}

/// World of one scenario.
#[derive(Default, World)]
pub struct LabWorld {
    lab: Option<Arc<Lab>>,
    pub id: String,
    /// Objects that steps applied: on somebody's cluster they go with the scenario.
    pub applied: Vec<Value>,
    /// Begin of the scenario: a cluster may remember what was before.
    pub begun: Timestamp,
    /// Where its last action began.
    pub marks: Marks,
    /// A step of it looks at events.
    pub looks_at_events: bool,
    /// Numbers of the last requests that steps waited for, by verb, resource and answer.
    pub awaited: BTreeMap<String, u64>,
    /// Requirements on the node, until it is needed.
    pub node: NodePlan,
    /// Cluster, started by the first step that needs it.
    pub cluster: Option<Arc<Tier>>,
    /// Requirements that it was started with.
    started_with: NodePlan,
    /// Pods by name, started or not.
    pub pods: BTreeMap<String, Pod>,
    /// The pod that `it` means.
    pub it: String,
    /// Results of pods' starts.
    pub starts: BTreeMap<String, PodStart>,
    /// UIDs of the pods whose starts ended.
    pub uids: BTreeMap<String, String>,
    /// Durations of the starts that a step awaited: none where a pod came up by itself.
    pub took: BTreeMap<String, Duration>,
    /// Last answer of a plugin that a step called itself.
    pub answer: Option<CniAnswer>,
    /// Operator's input to `install-cni manifests`.
    pub handed_in: HandedIn,
    /// Runtime's result of a chain that a step called.
    pub chain: Option<Result<(), ChainFailure>>,
    /// A call of the plugin that steps compose.
    pub call: Option<CallPlan>,
    /// Foreign rules before the plugin was called again.
    pub foreign: Vec<ForeignRule>,
    /// Rules of the pod's namespace before the plugin was called again.
    pub before: Option<LiveNetwork>,
    /// Rules of legacy iptables that the network left in pods, as `iptables-legacy -S` lists them.
    pub left: Vec<String>,
    /// Held locks, the last one at the end.
    pub locks: Vec<Held>,
    /// Result of the truth table.
    pub judged: Option<Judged>,
    /// Watched configuration directory of the node.
    pub watched: Option<Watched>,
    /// Captured packets of a pod.
    pub captured: Option<Captured>,
    /// Connections that pods keep open, by pod and sender.
    pub kept: BTreeMap<(String, String), Kept>,
    /// What of a pod gets past its rules.
    pub exposure: Option<Measure>,
    /// Deployment of the node agent.
    pub agent: AgentPlan,
    /// Result of the last request with the agent's token.
    pub attempt: Option<Attempt>,
    /// Configuration of Multus.
    pub multus: MultusPlan,
    /// Pods that a controller makes.
    pub made: Made,
    /// Answer of the API server to the last pod that a user created.
    pub answered: Answered,
    /// Taints of nodes, and their controllers.
    pub taints: Taints,
    /// Traffic so far.
    pub traffic: Vec<Sent>,
    pub objects: Vec<Value>,
    /// Texts of errors in logs that the feature expects.
    pub errors: Vec<String>,
    /// Texts of failures to take a pod's network down that the feature expects at its end.
    pub left_networks: Vec<String>,
    /// Notes for the report.
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
    /// Sets the scenario.
    pub fn begin(&mut self, lab: &Arc<Lab>, feature: &gherkin::Feature, scenario: &gherkin::Scenario) {
        self.lab = Some(Arc::clone(lab));
        self.begun = Timestamp::now();
        self.looks_at_events = scenario.steps.iter().any(|step| events::is_about(&step.value));
        if let Some(entry) = lab.catalogue.find(feature, scenario) {
            self.id.clone_from(&entry.id);
            self.node.mutant.clone_from(&entry.mutant);
        }
    }

    /// Shared state of the run.
    pub fn lab(&self) -> Result<Arc<Lab>, Stop> {
        self.lab.clone().ok_or_else(|| Stop::harness("a step ran before its scenario began"))
    }

    /// A step uses the node agent's token, or takes its rights.
    pub async fn agent_is_tried(&mut self) -> Step {
        let tier = self.cluster().await?;
        self.agent.account.tried(&tier);
        Ok(())
    }

    /// True if each defect is played against one of the scenarios that name it.
    pub fn is_quick(&self) -> bool {
        self.lab.as_ref().is_some_and(|lab| lab.plan.args.quick)
    }

    /// Cluster, started on first use.
    pub async fn cluster(&mut self) -> Result<Arc<Tier>, Stop> {
        if let Some(cluster) = &self.cluster {
            if self.started_with != self.node {
                return Err(Stop::harness(
                    "a step asks for another node once the node is there: say it before the first step that needs the node",
                ));
            }
            return Ok(Arc::clone(cluster));
        }
        let lab = self.lab()?;
        let made = Arc::new(Tier::start(&lab.plan, lab.session.as_ref(), &self.id, &self.node).await?);
        self.cluster = Some(Arc::clone(&made));
        self.started_with = self.node.clone();
        if self.node.is_brought(made.has_no_plugin()) {
            Box::pin(agent::bring_plugin(self)).await?;
        }
        Ok(made)
    }

    /// Cluster of a scenario that deploys no agent, where none had to bring the plugin; `what` cannot be done there.
    pub async fn cluster_without_agent(&mut self, what: &str) -> Result<Arc<Tier>, Stop> {
        let tier = self.cluster().await?;
        if self.node.is_brought(tier.has_no_plugin()) {
            return Err(LabError::unsupported(tier.tier(), what).into());
        }
        Ok(tier)
    }

    pub fn it(&mut self) -> Result<&mut Pod, Stop> {
        let name = self.it.clone();
        self.pod(&name)
    }

    /// One more pod like the one that is meant, numbered.
    pub fn like_it(&mut self, number: usize) -> Result<Pod, Stop> {
        let mut pod = self.it()?.clone();
        pod.name = format!("{}-{number}", pod.name);
        self.pods.insert(pod.name.clone(), pod.clone());
        Ok(pod)
    }

    pub fn pod(&mut self, name: &str) -> Result<&mut Pod, Stop> {
        self.pods.get_mut(name).ok_or_else(|| Stop::harness(format!("no step has introduced pod {name:?}")))
    }

    /// Namespace and name of a pod.
    pub fn name_of(&mut self, name: &str) -> Result<PodName, Stop> {
        Ok(PodName::new(&self.pod(name)?.namespace, name))
    }

    /// Those of the pod that `it` means.
    pub fn its_name(&mut self) -> Result<PodName, Stop> {
        let name = self.it.clone();
        self.name_of(&name)
    }

    /// Access to a started pod.
    pub async fn workload(&mut self, name: &str) -> Result<Box<dyn Workload>, Stop> {
        let pod = self.name_of(name)?;
        Ok(self.cluster().await?.workload(&pod).await?)
    }

    /// Result of a pod's start; starts it if no step has done so.
    pub async fn start(&mut self, name: &str) -> Result<PodStart, Stop> {
        if let Some(ended) = self.starts.get(name) {
            return Ok(ended.clone());
        }
        let object = self.pod(name)?.admitted().map_err(Stop::harness)?;
        self.objects.push(object.clone());
        let pod = self.name_of(name)?;
        let cluster = self.cluster().await?;
        let since = Instant::now();
        let ended = cluster.start_pod(&pod, object).await?;
        self.took.insert(name.to_owned(), since.elapsed());
        self.started(&pod, ended.clone()).await?;
        Ok(ended)
    }

    /// Keeps the result of a pod's start, and which pod it was.
    pub async fn started(&mut self, pod: &PodName, ended: PodStart) -> Step {
        let found = self.cluster().await?.pod(pod).await?.unwrap_or_default();
        if let Some(uid) = found["metadata"]["uid"].as_str() {
            self.uids.insert(pod.name.clone(), uid.to_owned());
        }
        self.starts.insert(pod.name.clone(), ended);
        Ok(())
    }

    /// Starts a pod that is only there to be talked to; if it does not run, its plugin is at fault.
    pub async fn run_pod(&mut self, name: &str) -> Step {
        match self.start(name).await? {
            PodStart::Running { .. } => Ok(()),
            other => Err(Stop::wrong(format!("pod {name:?} did not start: {other:?}"))),
        }
    }

    /// Answer of the last plugin call.
    pub fn answer(&self) -> Result<&CniAnswer, Stop> {
        self.answer.as_ref().ok_or_else(|| Stop::harness("no step has called a plugin"))
    }

    /// Applies an object.
    pub async fn apply(&mut self, object: Value) -> Step {
        self.applied.push(object.clone());
        Ok(self.cluster().await?.apply(object).await.map(drop)?)
    }

    /// Takes the world down. What is left is said, because it would be there for the next scenario to trip over.
    pub async fn end(&mut self) -> Result<Leftovers, String> {
        (self.watched, self.captured, self.exposure) = (None, None, None);
        self.kept.clear();
        let mut left = Leftovers::default();
        for denial in std::mem::take(&mut self.agent.denials) {
            left.note(denial.undo().await);
        }
        let Some(cluster) = self.cluster.take() else { return Ok(left) };
        let cluster = Arc::into_inner(cluster).ok_or("somebody still uses the cluster")?;
        left.extend(cluster.end(&self.applied).await.map_err(|error| error.to_string())?);
        Ok(left)
    }
}
