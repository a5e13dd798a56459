// SPDX-License-Identifier: Apache-2.0
//! The tier that scenarios run on: its set-up and its end. Steps see it through the traits of `cluster`.

#[cfg(feature = "container")]
pub(crate) mod contained;
pub mod images;
mod node_plan;
mod rights;
mod standing;
pub mod started;

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use apiserver::Account;
use cluster::front::denials;
use cluster::{
    Chaos, Cluster, Fault, Filter, Installed, LabError, Leftovers, Node, NodePlan, PodName, PodStart,
};
use k8s_openapi::api::core::v1::Namespace;
use kubelet::account;
use kubelet::options::Names;
pub use kubelet::options::scaled;
use kubelet::{ClusterOptions, NetnsCluster};
pub use kubelet::{netns, preflight};
use redirect::ruleset::Family;
use remote::RemoteCluster;
pub use remote::{Access, Error as SessionError, Seen, Session, SessionOptions, Whole, clean};
use serde::Deserialize;
use serde_json::{Value, json};
pub use standing::Standing;

use crate::binaries::MUTANT;
use crate::names;
use crate::plan::Plan;
use crate::product::Deployment;
use crate::pulse;
use crate::tier::started::RealControlPlane;

/// Life of a token that a scenario asks for.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// Name of the tier of embedded parts.
pub const NETNS: &str = kubelet::TIER;
/// Name of the tier of real parts that a run starts.
pub const NODE: &str = "node";
/// Name of the tier of somebody's parts.
pub const KUBECONFIG: &str = "kubeconfig";

/// Deadline of a pod's start. The plugin's own deadline is well below.
const POD_START: Duration = Duration::from_secs(60);

/// Deadline of an answer: enough for a busy machine, not for a retransmission. Every address answers before a pod starts, so none gets
/// lost.
pub const EXCHANGE: Duration = Duration::from_secs(2);

/// First backoff of a kubelet, where an agent is there to make a retry succeed. A real one has ten seconds.
const BACK_OFF: Duration = Duration::from_millis(250);

/// Where the clusters of a run keep their files: in the sandbox' own `/run`.
pub const ROOT: &str = "/run/cnilab";

/// Default namespace of pods of the mesh.
pub const MESH_NAMESPACE: &str = "shop";

/// Addresses of a pod, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Families {
    /// IPv4 only.
    #[default]
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6 only.
    #[serde(rename = "IPv6")]
    V6,
    /// Both, IPv4 first.
    #[serde(rename = "IPv4 and IPv6")]
    V4V6,
    /// Both, IPv6 first.
    #[serde(rename = "IPv6 and IPv4")]
    V6V4,
}

impl Families {
    /// Families, in order.
    #[must_use]
    pub fn list(self) -> Vec<Family> {
        match self {
            Self::V4 => vec![Family::V4],
            Self::V6 => vec![Family::V6],
            Self::V4V6 => vec![Family::V4, Family::V6],
            Self::V6V4 => vec![Family::V6, Family::V4],
        }
    }

    /// Value of the annotation for the lab's base plugin.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
            Self::V4V6 => "v4,v6",
            Self::V6V4 => "v6,v4",
        }
    }
}

impl FromStr for Families {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_value(text.into()).map_err(|_| format!("{text:?} names no families"))
    }
}

/// Directory of a scenario's cluster.
#[must_use]
pub fn directory(root: &Path, id: &str) -> PathBuf {
    root.join(names::directory(id))
}

/// The cluster of a scenario.
pub struct Tier(Parts);

/// Combination of parts that a cluster is made of.
enum Parts {
    /// The lab's own kubelet and network, with its API server or a real control plane.
    Embedded(Box<NetnsCluster>, Option<Box<RealControlPlane>>),
    /// Somebody's.
    Remote(Box<RemoteCluster>),
}

impl fmt::Debug for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Tier").field(&self.tier()).finish()
    }
}

impl Deref for Tier {
    type Target = dyn Cluster;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Parts::Embedded(cluster, _) => &**cluster,
            Parts::Remote(cluster) => &**cluster,
        }
    }
}

impl Tier {
    /// A client of the API.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        match &self.0 {
            Parts::Embedded(cluster, _) => cluster.client().clone(),
            Parts::Remote(cluster) => cluster.client(),
        }
    }

    /// A client of the API with somebody's token.
    ///
    /// # Errors
    /// The cluster is somebody else's: its tokens are none of the lab's business.
    pub fn client_as(&self, token: &str) -> Result<kube::Client, LabError> {
        match &self.0 {
            Parts::Embedded(cluster, _) => Ok(cluster.api()?.client_with_token(token)),
            Parts::Remote(cluster) => cluster.client_with_token(token),
        }
    }

    /// A token of an account (namespace and name), bound to a pod if one is named, as a kubelet asks for one.
    ///
    /// # Errors
    /// The API server issues none.
    pub async fn account_token(
        &self,
        (namespace, name): (&str, &str),
        pod: Option<&str>,
    ) -> Result<String, LabError> {
        let account = Account { namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(account::token(&self.client(), &account, pod, TOKEN_LIFE).await?)
    }

    /// Denials of requests: only a real API server is forgiven anything.
    ///
    /// # Errors
    /// Nobody stands before the API server.
    pub fn denials(&self, filter: Filter<'_>) -> Result<Vec<String>, LabError> {
        let is_real = !matches!(&self.0, Parts::Embedded(_, None));
        Ok(denials(&self.front()?.requests(), filter, is_real))
    }

    /// An object as the API server has it now.
    ///
    /// # Errors
    /// The API server does not answer as it should.
    pub async fn object(&self, path: &str) -> Result<Option<Value>, LabError> {
        let failed = |why: String| LabError::harness(format!("get {path}"), why);
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| failed(error.to_string()))?;
        match self.client().request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Pods with a label.
    ///
    /// # Errors
    /// The API server does not answer as it should.
    pub async fn pods(&self, namespace: &str, (label, value): (&str, &str)) -> Result<Vec<Value>, LabError> {
        self.items(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector={label}%3D{value}")).await
    }

    /// Objects of a list.
    ///
    /// # Errors
    /// The API server does not answer as it should.
    pub async fn items(&self, path: &str) -> Result<Vec<Value>, LabError> {
        let mut list = self.object(path).await?.unwrap_or_default();
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(LabError::harness(format!("get {path}"), "the answer is no list")),
        }
    }

    /// True if its nodes have no plugin but what an agent installs.
    #[must_use]
    pub fn has_no_plugin(&self) -> bool {
        matches!(&self.0, Parts::Remote(cluster) if cluster.is_whole())
    }

    /// Checks that programs of the product can be run in a pod's network beside its containers.
    ///
    /// # Errors
    /// Its nodes do not have them.
    pub fn has_programs(&self) -> Result<(), LabError> {
        match &self.0 {
            Parts::Embedded(..) => Ok(()),
            Parts::Remote(_) => {
                let what = "run a program of the product in a pod, beside its containers";
                Err(LabError::unsupported(remote::TIER, what))
            }
        }
    }

    /// Checks that a namespace is the run's, and goes with it.
    ///
    /// # Errors
    /// It is somebody's.
    pub fn may_change(&self, namespace: &Namespace) -> Result<(), LabError> {
        match &self.0 {
            Parts::Embedded(..) => Ok(()),
            Parts::Remote(cluster) => cluster.may_change(namespace),
        }
    }

    /// True if the end of a pod's start has the plugin's error code. The kubelet of a real runtime has its message only.
    #[must_use]
    pub fn knows_codes(&self) -> bool {
        matches!(self.0, Parts::Embedded(..))
    }

    /// A view of a cluster that is there, for a scenario. Its nodes are what they are.
    async fn of(session: &Session, node: &NodePlan) -> Result<Self, LabError> {
        let (wanted, there) = (node.count.unwrap_or(1), session.nodes());
        if there < wanted {
            let what = format!("play a scenario of {wanted} nodes on {there}");
            return Err(LabError::Unmet(what));
        }
        match node_plan::differs(node, session) {
            None => {
                let cluster = Box::pin(RemoteCluster::begin(session, wanted)).await?;
                if node.installed == Installed::ByAgent || cluster.is_whole() {
                    cluster.expects_agent().await?;
                }
                Ok(Self(Parts::Remote(Box::new(cluster))))
            }
            Some(what) => Err(LabError::unsupported(remote::TIER, format!("give a node {what}"))),
        }
    }

    /// Starts a cluster for a scenario.
    pub async fn start(
        plan: &Plan,
        session: Option<&Session>,
        id: &str,
        node: &NodePlan,
    ) -> Result<Self, LabError> {
        if let Some(session) = session {
            return Self::of(session, node).await;
        }
        let drawn = plan.drawn();
        let root = drawn.map_or_else(|| ROOT.into(), |drawn| Path::new("/run").join(drawn.word("clusters")));
        let directory = directory(&root, id);
        let mut options = ClusterOptions::new(&directory, &plan.workload, &plan.sut.dir);
        options.chaos = plan.args.chaos.map(|seed| Chaos::new(seed, id)).unwrap_or_default();
        if let Some(drawn) = drawn {
            let (pods, second) = drawn.networks();
            options.names = Names { node: drawn.word("node"), pods, second };
        }
        options.deadlines.exchange = EXCHANGE;
        options.patience = pulse::patience();
        options.deadlines = options.deadlines.stretched(options.patience);
        options.node = node.clone();
        let mutant = node.mutant.iter().map(|name| (MUTANT.to_owned(), name.clone()));
        options.binaries.sut_env.extend(mutant);
        if let Deployment::Objects(objects) = &plan.sut.product.deployed {
            options.binaries.image.clone_from(&objects.image);
        }
        if node.probes_in_real_time {
            options.probe_second = Duration::from_secs(1);
        }
        if node.installed == Installed::ByAgent {
            options.back_off = Some(BACK_OFF);
        }
        let failed = |error: anyhow::Error| LabError::harness("start a control plane", format!("{error:#}"));
        let mut control = None;
        if let Some(real) = &plan.real {
            let started = RealControlPlane::start(real, &plan.workload, &names::directory(id)).await;
            let started = control.insert(Box::new(started.map_err(failed)?));
            options.joined = Some(started.access().await.map_err(failed)?);
        }
        let cluster = NetnsCluster::start(options).await?;
        let metadata = json!({ "name": MESH_NAMESPACE });
        cluster.apply(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).await?;
        Ok(Self(Parts::Embedded(Box::new(cluster), control)))
    }

    /// The node, or the first one.
    pub fn node(&self) -> Result<&dyn Node, LabError> {
        self.nodes()
            .into_iter()
            .next()
            .ok_or_else(|| LabError::harness("find the node", "the cluster has none"))
    }

    /// Lets something go wrong for the requests of agent and plugin alone.
    ///
    /// # Errors
    /// Nobody stands between the plugin and its API server.
    pub fn add_fault(&self, fault: Fault) -> Result<(), LabError> {
        self.front()?.add(Fault { user: Some(cluster::plugin_user()), ..fault });
        Ok(())
    }

    /// Creates a pod and waits for the end of its start.
    pub async fn start_pod(&self, pod: &PodName, object: Value) -> Result<PodStart, LabError> {
        let node = match object["spec"]["nodeName"].as_str() {
            Some(wanted) => self.node_named(wanted)?,
            None => self.node()?,
        };
        self.create_pod(object).await?;
        node.pod_started(pod, POD_START * self.patience()).await
    }

    /// A node by its name, or by what scenarios call those of a cluster in order: `node-1`, `node-2`, ….
    pub fn node_named(&self, name: &str) -> Result<&dyn Node, LabError> {
        let nodes = self.nodes();
        let nth = || name.strip_prefix("node-")?.parse::<usize>().ok()?.checked_sub(1);
        let by_name = nodes.iter().position(|node| node.name() == name);
        let found = by_name.or_else(nth).and_then(|number| nodes.get(number).copied());
        found.ok_or_else(|| match &self.0 {
            Parts::Embedded(..) => {
                let why = format!("the cluster has {} nodes", nodes.len());
                LabError::harness(format!("find node {name}"), why)
            }
            Parts::Remote(_) => {
                LabError::Unmet(format!("find node {name}: the cluster has {} nodes", nodes.len()))
            }
        })
    }

    /// Creates a pod for the node that it names, or the first one. In a cluster of others the scheduler chooses, unless the scenario deploys the
    /// node agent: then it looks at that node.
    pub async fn create_pod(&self, mut object: Value) -> Result<(), LabError> {
        let named = object["spec"]["nodeName"].as_str().map(str::to_owned);
        let is_guest = matches!(&self.0, Parts::Remote(cluster) if !cluster.is_whole());
        match named {
            Some(name) => object["spec"]["nodeName"] = json!(self.node_named(&name)?.name()),
            None if is_guest => {}
            None => object["spec"]["nodeName"] = json!(self.node()?.name()),
        }
        self.apply(object).await.map(drop)
    }

    /// An object as this cluster has it made, for whoever makes it past the lab.
    ///
    /// # Errors
    /// The cluster cannot have such an object.
    pub async fn as_made(&self, object: Value) -> Result<Value, LabError> {
        match &self.0 {
            Parts::Embedded(..) => Ok(object),
            Parts::Remote(cluster) => cluster.as_made(&object).await,
        }
    }

    /// An object for whoever applies it past the lab: it has the run's label where others use the cluster, so that it is found again.
    #[must_use]
    pub fn labelled(&self, object: &Value) -> Value {
        match &self.0 {
            Parts::Embedded(..) => object.clone(),
            Parts::Remote(cluster) => cluster.labelled(object),
        }
    }

    /// Ends everything that runs and removes every file, and on somebody's cluster the objects that steps applied. Returns what was not undone.
    pub async fn end(self, applied: &[Value]) -> Result<Leftovers, LabError> {
        match self.0 {
            Parts::Embedded(cluster, control) => {
                // The one ends even if the other does not.
                let left = cluster.stop().await;
                if let Some(control) = control {
                    control
                        .end()
                        .await
                        .map_err(|error| LabError::harness("end a control plane", format!("{error:#}")))?;
                }
                Ok(left?)
            }
            Parts::Remote(cluster) => Ok(cluster.end(applied).await),
        }
    }
}

/// An API server in process, for tests of what asks one.
#[cfg(test)]
pub(crate) fn api_server() -> kube::Client {
    apiserver::ApiServer::new(apiserver::ServerOptions::default()).map(|server| server.client()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_brings_the_plugin_that_the_lab_would_have_installed() {
        let of = |installed| NodePlan { installed, ..NodePlan::default() };
        assert!(of(Installed::ByLab).is_brought(true));
        assert!(!of(Installed::ByLab).is_brought(false));
        assert!(!of(Installed::ByAgent).is_brought(true));
    }
}
