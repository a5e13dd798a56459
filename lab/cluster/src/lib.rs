// SPDX-License-Identifier: Apache-2.0
//! The vocabulary that features are written in. A tier (a real node's namespaces, a runtime, a cluster) implements these
//! traits; steps use nothing else, so a feature never names a tier.
//!
//! Plugin calls are here beside the traits; [`mod@bounded`] has the bounds of output, [`identity`] what a report says of a node, [`traffic`] has what pods send and who answers, [`runtime`] what concerns a node's
//! container runtime, [`profile`] how runtimes differ, [`choice`] components of a cluster of real ones, [`condition`] what an object says of itself, [`conflist`] a network's configuration, [`network`] a pod's network from inside, [`node_plan`] what a scenario requires of its node, [`front`] what the API server is asked and
//! how that goes wrong, [`hand`] how the lab's process on a node is spoken to, [`machines`] what is done to a node as a machine, [`leftovers`] what an end does not undo, [`kubelet`] and [`server`] what
//! only the lab's own can be asked for.

#![warn(missing_docs)]

mod account;
pub mod bounded;
pub mod chaos;
#[expect(missing_docs, reason = "a doc line of a value would be help of the command line")]
pub mod choice;
pub mod condition;
pub mod conflist;
pub mod front;
pub mod hand;
pub mod identity;
pub mod issuer;
pub mod kubelet;
pub mod leftovers;
pub mod machines;
pub mod network;
pub mod node_plan;
pub mod power;
pub mod profile;
pub mod runtime;
pub mod server;
pub mod traffic;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hand::Hand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use account::{DAEMONSET, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, plugin_user, system_user};
pub use bounded::{Bounded, bounded};
pub use chaos::{Actor, Chaos};
pub use front::{Asked, Effect, Fault, Filter, Front, InitialEvents, Verb};
pub use identity::{AgentIdentity, NodeIdentity};
pub use issuer::{Identity, Issuer};
pub use kubelet::{Kubelet, MultusEnd, MultusFile};
pub use leftovers::Leftovers;
pub use machines::{Configuration, Disk, Machines, Memory, architecture};
pub use network::{Disturbance, LiveNetwork, LiveRule, Wanted};
pub use node_plan::{NodePlan, RuntimeConf};
pub use profile::RuntimeProfile;
pub use runtime::{
    AgentStandIn, BASE_PLUGIN, ChainFailure, Entering, Files, Installed, KUBECONFIG, Kernel, Lack, NodePaths,
    PRIMARY, PodName, Position, RuntimeCall, UnknownLack,
};
pub use server::Server;
pub use traffic::{Answer, ProxyHop, Segment, Stray, StrayEnding, Traffic, Transport};
pub use workload::Workload;

/// Answer of a pod's port over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// `None` if the pod did not answer by HTTP.
    pub code: Option<u16>,
    /// Headers by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; without a code what came instead, or why nothing did.
    pub body: String,
}

/// Capability of the environment, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The need's tag without `@` (`real-kernel`, `ipv6`, `iptables-tools`).
    pub need: String,
    /// True if it is met.
    pub met: bool,
    /// Evidence: the attempt and its result.
    pub evidence: String,
    /// True if it is a tool that is not there, as against one that is there and fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// Why the lab could not do what a step asked. Not a verdict on the system under test.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The tier cannot do it.
    #[error("{tier} cannot {what}")]
    Unsupported {
        /// The tier.
        tier: &'static str,
        /// Requested operation.
        what: String,
    },
    /// This cluster cannot do it; others of its tier can.
    #[error("this cluster cannot {0}")]
    Unmet(String),
    /// Nothing happened before the deadline.
    #[error("{what} did not happen within {deadline:?}")]
    Deadline {
        /// Expected event.
        what: String,
        /// Deadline.
        deadline: Duration,
    },
    /// The harness itself failed: the verdict is `inconclusive`.
    #[error("failed to {what}: {why}")]
    Harness {
        /// Operation.
        what: String,
        /// The cause.
        why: String,
    },
}

impl LabError {
    /// The tier cannot do it.
    pub fn unsupported(tier: &'static str, what: impl Into<String>) -> Self {
        Self::Unsupported { tier, what: what.into() }
    }

    /// The harness itself failed.
    pub fn harness(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::Harness { what: what.into(), why: why.to_string() }
    }
}

/// Result of a pod's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum PodStart {
    /// All containers run.
    Running {
        /// The pod's addresses, in the order of the sandbox' result.
        addresses: Vec<IpAddr>,
    },
    /// The sandbox could not be set up: the runtime's error, as the kubelet would report it.
    SandboxFailed {
        /// The CNI error's code, if the plugin gave one.
        code: Option<u32>,
        /// The message.
        message: String,
    },
    /// The sandbox is there, but a container did not come up, or an init container failed.
    ContainerFailed {
        /// The container.
        container: String,
        /// Its exit code; `None` if it could not be started, was killed, or said nothing before its deadline.
        exit: Option<i32>,
        /// Last message, or why it could not be started.
        message: String,
    },
    /// The lab failed: nothing is known about the system under test. [`Node`] returns it as [`LabError::Harness`].
    LabFailed {
        /// The cause.
        why: String,
    },
}

/// One call of one CNI plugin, as a runtime makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniCall {
    /// The plugin's `type`: a binary's name.
    pub plugin: String,
    /// The whole environment (`CNI_COMMAND`, …); nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Vec<u8>,
}

impl CniCall {
    /// `CNI_COMMAND`, empty where it is absent.
    #[must_use]
    pub fn command(&self) -> &str {
        self.env.get("CNI_COMMAND").map_or("", String::as_str)
    }

    /// True if its `CNI_ARGS` name this pod.
    #[must_use]
    pub fn is_for(&self, pod: &str) -> bool {
        let mut arguments = self.env.get("CNI_ARGS").into_iter().flat_map(|all| all.split(';'));
        arguments.any(|one| one.strip_prefix("K8S_POD_NAME=") == Some(pod))
    }

    /// The call for a record: an object with its plugin, its environment and its standard input, as JSON if it is.
    #[must_use]
    pub fn told(&self) -> Value {
        let stdin = serde_json::from_slice(&self.stdin);
        let stdin: Value = stdin.unwrap_or_else(|_| String::from_utf8_lossy(&self.stdin).into());
        json!({ "plugin": self.plugin, "env": self.env, "stdin": stdin })
    }
}

/// Result of a [`CniCall`], or of another program that ran to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniAnswer {
    /// Exit code; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// Standard output, whole.
    pub stdout: String,
    /// Standard error, whole.
    pub stderr: String,
    /// Duration.
    pub took: Duration,
    /// Part of `took` in which the process was runnable and had no core; zero where nobody knows.
    #[serde(default)]
    pub waited: Duration,
}

impl CniAnswer {
    /// The answer of a program that has ended.
    #[must_use]
    pub fn of(output: &Output, took: Duration, waited: Duration) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Self { exit: output.status.code(), stdout, stderr, took, waited }
    }

    /// Standard output as JSON; `Null` when empty or not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or(Value::Null)
    }
}

/// A cluster with one or more nodes.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The tier's name.
    fn tier(&self) -> &'static str;

    /// Creates or replaces an object of the API (`kind`, `apiVersion` and `metadata` say which).
    async fn apply(&self, object: Value) -> Result<Value, LabError>;

    /// Rejects an object with pods of which this cluster would play less than a real one. For whoever applies it past [`Self::apply`].
    ///
    /// # Errors
    /// A field of its pods is not played.
    fn plays(&self, _object: &Value) -> Result<(), LabError> {
        Ok(())
    }

    /// A pod as the API server has it now.
    async fn pod(&self, pod: &PodName) -> Result<Option<Value>, LabError>;

    /// Deletes a pod and waits until its sandbox is gone.
    async fn delete_pod(&self, pod: &PodName) -> Result<(), LabError>;

    /// The nodes.
    fn nodes(&self) -> Vec<&dyn Node>;

    /// A pod that was applied: for traffic and for looking into its namespace.
    async fn workload(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError>;

    /// A pod whose sandbox exists while its start may still go on.
    async fn starting(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError> {
        self.workload(pod).await
    }

    /// The lab's own API server.
    fn server(&self) -> Result<&dyn Server, LabError> {
        Err(LabError::unsupported(self.tier(), "look into the API server"))
    }

    /// Who issues the cluster's certificates.
    fn issuer(&self) -> Result<&dyn Issuer, LabError> {
        Err(LabError::unsupported(self.tier(), "issue a certificate"))
    }

    /// The lab's own kubelet.
    fn kubelet(&self) -> Result<&dyn Kubelet, LabError> {
        Err(LabError::unsupported(self.tier(), "ask a kubelet for anything"))
    }

    /// Its nodes as machines.
    fn machines(&self) -> Result<&dyn Machines, LabError> {
        Err(LabError::unsupported(self.tier(), "restart a node, or what runs it"))
    }

    /// Runs a program inside of a container, as `kubectl exec` does: the container's own, unless `words` begin with an absolute path.
    async fn exec(&self, pod: &PodName, container: &str, words: &[&str]) -> Result<CniAnswer, LabError> {
        let what = format!("run {words:?} in container {container:?} of pod {:?}", pod.name);
        Err(LabError::unsupported(self.tier(), what))
    }

    /// Asks a port of a pod for something over HTTP, from its node.
    async fn fetch(&self, pod: &PodName, port: u16, path: &str) -> Result<Fetched, LabError> {
        let what = format!("ask port {port} of pod {:?} for {path}", pod.name);
        Err(LabError::unsupported(self.tier(), what))
    }

    /// Waits until a pod runs, however many starts that takes.
    async fn comes_up(&self, pod: &PodName, deadline: Duration) -> Result<(), LabError>;

    /// Factor of deadlines: how much slower than the lab's own cluster this one may be.
    fn patience(&self) -> u32 {
        1
    }

    /// Interval of looks at what no event tells of: files, metrics, what a container prints. A look asks the API server.
    fn poll_interval(&self) -> Duration {
        Duration::from_millis(25)
    }

    /// Follows what happens from now on.
    async fn news(&self) -> Result<Box<dyn News>, LabError>;

    /// What stands between the API server and the nodes.
    fn front(&self) -> Result<&dyn Front, LabError> {
        let what = "put anybody between the API server and its nodes".to_owned();
        Err(LabError::unsupported(self.tier(), what))
    }

    /// Output of all containers on the nodes, `namespace/pod container: line`, where it can be had those of deleted pods as well.
    async fn logs(&self) -> Result<Vec<String>, LabError> {
        Ok(Vec::new())
    }
}

/// What happens in a cluster, for whoever waits: nobody has to look again before.
#[async_trait]
pub trait News: Send {
    /// Waits until something has happened that was not told yet: an object has changed, or more than that where the tier hears of it.
    async fn next(&mut self);
}

/// A node.
#[async_trait]
pub trait Node: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Waits for the end of a pod's start, successful or not.
    async fn pod_started(&self, pod: &PodName, deadline: Duration) -> Result<PodStart, LabError>;

    /// Calls a CNI plugin as the runtime would, outside of any pod's life cycle.
    async fn call_plugin(&self, call: CniCall) -> Result<CniAnswer, LabError>;

    /// As [`Node::call_plugin`], on another kernel than the node's.
    async fn call_plugin_on(&self, call: CniCall, kernel: &Kernel) -> Result<CniAnswer, LabError> {
        Err(LabError::unsupported("this tier", format!("call {} on {kernel:?}", call.plugin)))
    }

    /// Every plugin call so far: chain position order, with answers.
    fn cni_calls(&self) -> Result<Vec<(CniCall, CniAnswer)>, LabError> {
        Err(LabError::unsupported("this tier", "see the runtime call its plugins"))
    }

    /// The ADD of a plugin that the runtime has called last for a pod of that name.
    async fn last_add(&self, plugin: &str, pod: &str) -> Result<CniCall, LabError> {
        let mut calls = self.cni_calls()?.into_iter().map(|(call, _)| call);
        let last = calls.rfind(|call| call.plugin == plugin && call.command() == "ADD" && call.is_for(pod));
        last.ok_or_else(|| {
            LabError::harness(format!("find the ADD of {plugin} for {pod}"), "the runtime has called none")
        })
    }

    /// Types of the plugins that the runtime would call for a pod, in order; none if it has no network. What containerd tells as
    /// `cniconfig` of its status.
    fn loaded(&self) -> Result<Vec<String>, LabError> {
        Err(LabError::unsupported("this tier", "ask the runtime what it has loaded"))
    }

    /// Reasons of the runtime's reads so far that found no network where one was loaded.
    fn lost_networks(&self) -> Result<Vec<String>, LabError> {
        Err(LabError::unsupported("this tier", "ask the runtime for each of its reads"))
    }

    /// Its directories, where the tier has them in reach.
    fn paths(&self) -> Result<NodePaths, LabError> {
        Err(LabError::unsupported("this tier", "open a node's directories"))
    }

    /// The lab's process on it: for its files, programs, processes and packets.
    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError>;

    /// Its directories, as it names them itself: paths for [`Node::hand`].
    fn directories(&self) -> NodePaths {
        NodePaths::default()
    }

    /// Its default network: base plugin and plugin under test, for [`PRIMARY`] after edits.
    fn network(&self) -> Value {
        Value::Null
    }

    /// Sets a failed sandbox up again, as a kubelet does after its back-off, and waits until that start has ended.
    async fn retry_pod(&self, pod: &PodName, deadline: Duration) -> Result<PodStart, LabError> {
        let _ = (pod, deadline);
        Err(LabError::unsupported("this tier", "set a sandbox up again on request"))
    }

    /// Makes the runtime call its chain; the inner error is the system under test's.
    async fn runtime_call(&self, call: RuntimeCall) -> Result<Result<(), ChainFailure>, LabError> {
        Err(LabError::unsupported("this tier", format!("make the runtime call {call:?}")))
    }

    /// Replaces the listener of the agent's socket.
    async fn set_agent(&self, agent: AgentStandIn) -> Result<(), LabError> {
        Err(LabError::unsupported("this tier", format!("stand in for the agent as {agent:?}")))
    }

    /// The requests that the stand-in got, in order; what was not JSON is a string.
    fn agent_requests(&self) -> Vec<Value> {
        Vec::new()
    }
}
