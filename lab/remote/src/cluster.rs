// SPDX-License-Identifier: Apache-2.0
//! One scenario's view of the cluster: namespaces of its own, whose names carry the run's and the scenario's, and the nodes.

mod end;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::PROMPT;
use cluster::{
    Cluster, CniAnswer, Configuration, Disk, Fetched, Front, Issuer, LabError, Machines, Memory, News, Node,
    PodName, PodStart, SYSTEM_NAMESPACE, Workload,
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::before::Before;
use crate::error::{Error, TIER};
use crate::node::{RemoteNode, excused};
use crate::objects::from;
use crate::restore::look;
use crate::session::{LABEL, Session, make_namespace, of_run};
use crate::start::{Progress, addresses, progress};
use crate::view::{View, labelled};
use crate::watch::{Told, until, until_gone};
use crate::workload::RemotePod;
use crate::{cordon, exec, logs, objects};

/// Policies are looked at anew every second (`policyRefreshIntervalDefault`).
const POLICIES: Duration = Duration::from_secs(2);
/// Kinds that say what becomes of a pod when it is made.
const JUDGES: [&str; 2] = ["ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration"];
/// A real kubelet probes and reports in seconds, and nodes are busy with others.
const PATIENCE: u32 = 3;
/// The API server is somebody's, and has others to serve.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A cluster as one scenario sees it.
#[derive(Debug)]
pub struct RemoteCluster {
    view: View,
    /// As [`Session::nodes`].
    nodes: Vec<RemoteNode>,
    /// Number of those that the scenario is about: the first. To the others nothing is scheduled but pods of DaemonSets, if it has the cluster to itself.
    playing: usize,
    /// When the last binding of a policy was applied, until a pod is made.
    bound: Mutex<Option<Instant>>,
    used: Mutex<Used>,
}

/// A node before a scenario. The former one may have cost it its hand: a container runtime that ends takes all streams with it.
async fn seen(node: &RemoteNode) -> Result<Before, LabError> {
    match look(node).await {
        Ok(before) => Ok(before),
        Err(_) => {
            node.view.session.lay_hand_again(&node.name).await?;
            look(node).await
        }
    }
}

/// Namespaces with something of a scenario in them.
#[derive(Debug, Default)]
struct Used {
    made: BTreeSet<String>,
    /// Those that were there: only pods of the scenario go.
    found: BTreeSet<String>,
}

impl Used {
    fn all(&self) -> BTreeSet<String> {
        self.made.union(&self.found).cloned().collect()
    }
}

impl RemoteCluster {
    /// A view for one scenario.
    ///
    /// # Errors
    /// A node cannot be looked at, or what a former scenario left cannot be undone.
    pub async fn begin(session: &Session, playing: usize) -> Result<Self, LabError> {
        let mut cluster = Self::of(session, if session.is_whole() { playing } else { session.nodes() });
        if let Some(owned) = &session.owned {
            owned.front.clear();
            // Another scenario may have given it another one.
            owned.front.certify(&*owned.issuer, None).await?;
        }
        if session.is_whole() {
            cluster.take(session).await?;
        }
        if let Some(owned) = &session.owned {
            // Requests of a former scenario's pods are told as they end, which may be now: they are none of this one.
            owned.front.renew();
        }
        Ok(cluster)
    }

    fn of(session: &Session, playing: usize) -> Self {
        let prefix = format!("cnilab-{}-{}", session.options.run, session.number());
        let view = View { session: session.clone(), prefix };
        let node = |name: &String| RemoteNode {
            name: name.clone(),
            view: view.clone(),
            list: None,
            network: Value::Null,
        };
        let nodes = session.nodes.iter().map(node).collect();
        Self { view, nodes, playing, bound: Mutex::default(), used: Mutex::default() }
    }

    /// Sees to it that nothing of former scenarios is in the cluster, and cordons the nodes that this one is not about.
    async fn take(&mut self, session: &Session) -> Result<(), LabError> {
        self.tidy().await?;
        let now = try_join_all(self.nodes.iter().map(seen)).await?;
        let baseline = session.baseline().begin(now);
        for (node, before) in self.nodes.iter_mut().zip(baseline.iter()) {
            if let Some((list, network)) = before.network() {
                (node.list, node.network) = (Some(list.to_owned()), network);
            }
        }
        let (others, run) = (self.nodes.iter().skip(self.playing), (LABEL, session.options.run.as_str()));
        try_join_all(others.map(|node| cordon::lay(&session.client, &node.name, run))).await?;
        Ok(())
    }

    fn session(&self) -> &Session {
        &self.view.session
    }

    /// A client of the API.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.session().client.clone()
    }

    /// A client of the API with somebody's token.
    ///
    /// # Errors
    /// The run does not have the cluster to itself.
    pub fn client_with_token(&self, token: &str) -> Result<kube::Client, LabError> {
        if !self.is_whole() {
            return Err(Error::Unsupported("use the token of somebody in the cluster".to_owned()).into());
        }
        Ok(self.session().client_with_token(token)?)
    }

    /// Sees to a namespace, by its name in the cluster.
    async fn has_namespace(&self, name: &str) -> Result<(), Error> {
        let mut used = self.used.lock().await;
        if used.made.contains(name) || used.found.contains(name) {
            return Ok(());
        }
        match make_namespace(&self.client(), name, &self.session().options.run).await {
            Ok(()) => used.made.insert(name.to_owned()),
            Err(error) if error.is_about_one_that_is_there() && self.is_whole() => {
                used.found.insert(name.to_owned())
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Sees to the namespace that the node agent is deployed to.
    ///
    /// # Errors
    /// The cluster is not the run's own, or the API server refuses.
    pub async fn expects_agent(&self) -> Result<(), LabError> {
        if !self.is_whole() {
            return Err(Error::Unsupported("give a node no plugin".to_owned()).into());
        }
        Ok(self.has_namespace(SYSTEM_NAMESPACE).await?)
    }

    /// True if scenarios have the cluster to themselves, one at a time.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.session().is_whole()
    }

    /// Its nodes as machines, where the run has started them.
    fn owned_machines(&self) -> Result<&dyn Machines, LabError> {
        let what = "restart a node, or what runs it".to_owned();
        let owned = self.session().owned.as_ref();
        owned.map(|owned| &*owned.machines).ok_or(LabError::unsupported(TIER, what))
    }

    /// Waits until the API server judges by the policies that were applied last. It says nothing when it begins to: pods that start before are
    /// judged by those of another scenario.
    async fn policies_follow(&self) {
        if let Some(bound) = self.bound.lock().await.take() {
            tokio::time::sleep_until(bound + POLICIES).await;
        }
    }

    /// Checks that a namespace is the run's.
    ///
    /// # Errors
    /// It is somebody's: what is changed there would stay.
    pub fn may_change(&self, namespace: &Namespace) -> Result<(), LabError> {
        match namespace.labels().get(LABEL) == Some(&self.session().options.run) {
            true => Ok(()),
            false => {
                let what = format!("change namespace {:?}, which is not the run's", namespace.name_any());
                Err(Error::Unsupported(what).into())
            }
        }
    }

    /// An object that is applied past the lab, so that it is found again if the run is killed.
    #[must_use]
    pub fn labelled(&self, object: &Value) -> Value {
        labelled(object, &self.session().options.run)
    }

    /// An object as it is made here, once its namespace is there and pods are judged by all that was applied.
    ///
    /// # Errors
    /// The API server rejects its namespace, or the cluster cannot have such an object.
    pub async fn as_made(&self, object: &Value) -> Result<Value, LabError> {
        let metadata = &object["metadata"];
        let namespace =
            if object["kind"] == "Namespace" { &metadata["name"] } else { &metadata["namespace"] };
        let name = self.view.real(namespace.as_str().unwrap_or("default"))?;
        let mut object = self.view.adapt(object, &name)?;
        self.has_namespace(&name).await?;
        object["metadata"]["labels"][LABEL] = Value::from(self.session().options.run.as_str());
        if object["kind"] == "Pod" {
            self.policies_follow().await;
        }
        Ok(object)
    }

    async fn create(&self, object: &Value) -> Result<Value, LabError> {
        let object = self.as_made(object).await?;
        if object["kind"] != "Pod" {
            if object["kind"].as_str().is_some_and(|kind| JUDGES.contains(&kind)) {
                *self.bound.lock().await = Some(Instant::now());
            }
            return Ok(objects::apply(&self.client(), &object).await?);
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let made =
            pods.create(&PostParams::default(), &from(object)?).await.map_err(Error::api("make a pod"))?;
        Ok(serde_json::to_value(made).map_err(Error::from)?)
    }
}

#[async_trait]
impl Machines for RemoteCluster {
    async fn reboot(&self, node: &str, configuration: Configuration) -> Result<(), LabError> {
        self.owned_machines()?.reboot(node, configuration).await?;
        self.session().baseline().changes.blind = None;
        Ok(self.session().lay_hand_again(node).await?)
    }

    async fn restart_runtime(&self, node: &str) -> Result<(), LabError> {
        self.owned_machines()?.restart_runtime(node).await?;
        self.session().baseline().changes.blind = None;
        Ok(self.session().lay_hand_again(node).await?)
    }

    fn lose_sight(&self, node: &str) {
        self.session().baseline().changes.blind = Some(node.to_owned());
    }

    async fn restart_kubelet(&self, node: &str) -> Result<(), LabError> {
        self.owned_machines()?.restart_kubelet(node).await?;
        Ok(self.session().lay_hand_again(node).await?)
    }

    async fn set_memory(&self, node: &str, memory: Memory) -> Result<(), LabError> {
        let (machines, changes) = (self.owned_machines()?, || self.session().baseline());
        if memory == Memory::Short {
            changes().changes.short = Some(node.to_owned());
        }
        machines.set_memory(node, memory).await?;
        if memory == Memory::Enough {
            changes().changes.short = None;
        }
        Ok(self.session().lay_hand_again(node).await?)
    }

    async fn restart_api(&self, away: Duration) -> Result<(), LabError> {
        self.owned_machines()?.restart_api(away).await?;
        // Hands are reached through it.
        for node in &self.nodes {
            self.session().lay_hand_again(&node.name).await?;
        }
        Ok(())
    }

    async fn trust(&self, authorities: &str) -> Result<(), LabError> {
        let machines = self.owned_machines()?;
        self.session().baseline().changes.trusts_others = true;
        machines.trust(authorities).await
    }

    /// A runtime goes on watching what is beneath a new mount, so it is restarted.
    async fn lay_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError> {
        let machines = self.owned_machines()?;
        self.session().baseline().changes.disk = Some((node.to_owned(), directory.to_owned()));
        machines.lay_disk(node, directory, disk).await?;
        self.restart_runtime(node).await
    }

    async fn turn_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError> {
        self.owned_machines()?.turn_disk(node, directory, disk).await
    }

    async fn lift_disk(&self, node: &str, directory: &Path) -> Result<(), LabError> {
        self.owned_machines()?.lift_disk(node, directory).await?;
        self.session().baseline().changes.disk = None;
        self.restart_runtime(node).await
    }
}

#[async_trait]
impl Cluster for RemoteCluster {
    fn tier(&self) -> &'static str {
        TIER
    }

    async fn apply(&self, object: Value) -> Result<Value, LabError> {
        if object["kind"] == "Pod" || self.is_whole() {
            return self.create(&object).await;
        }
        Err(Error::Unsupported(format!("apply a {}", object["kind"].as_str().unwrap_or("nameless object")))
            .into())
    }

    async fn pod(&self, pod: &PodName) -> Result<Option<Value>, LabError> {
        let found =
            self.view.pods(&pod.namespace)?.get_opt(&pod.name).await.map_err(Error::api("get a pod"))?;
        Ok(found.map(serde_json::to_value).transpose().map_err(Error::from)?)
    }

    fn patience(&self) -> u32 {
        PATIENCE
    }

    fn poll_interval(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn news(&self) -> Result<Box<dyn News>, LabError> {
        if let Some(feed) = &self.session().feed {
            return Ok(Box::new(feed.subscribe()));
        }
        let used = self.used.lock().await.all();
        Ok(Box::new(Told::of(&self.client(), &used).await?))
    }

    fn front(&self) -> Result<&dyn Front, LabError> {
        let what = "put anybody between the API server and its nodes".to_owned();
        let owned = self.session().owned.as_ref();
        owned.map(|owned| &*owned.front).ok_or(LabError::unsupported(TIER, what))
    }

    fn issuer(&self) -> Result<&dyn Issuer, LabError> {
        let owned = self.session().owned.as_ref();
        let what = "issue a certificate".to_owned();
        owned.map(|owned| &*owned.issuer).ok_or(LabError::unsupported(TIER, what))
    }

    fn machines(&self) -> Result<&dyn Machines, LabError> {
        self.owned_machines().map(|_| self as &dyn Machines)
    }

    async fn comes_up(&self, pod: &PodName, deadline: Duration) -> Result<(), LabError> {
        let pods = self.view.pods(&pod.namespace)?;
        let what = || format!("the start of pod {}/{}", pod.namespace, pod.name);
        let runs = |pod: &Pod| matches!(progress(pod), Progress::Ended(PodStart::Running { .. }));
        match until(&pods, &pod.name, what, deadline * PATIENCE, runs).await {
            Ok(_) => Ok(()),
            Err(error) => Err(excused(&pods, &pod.name, error).await.into()),
        }
    }

    async fn exec(&self, pod: &PodName, container: &str, words: &[&str]) -> Result<CniAnswer, LabError> {
        let pods = self.view.pods(&pod.namespace)?;
        let run = exec::run(&pods, &pod.name, container, words);
        let deadline = self.session().options.deadline;
        let what = || format!("the end of {words:?} in pod {}/{}", pod.namespace, pod.name);
        let ended = tokio::time::timeout(deadline, run).await;
        Ok(ended.map_err(|_| Error::Deadline { what: what(), deadline })??)
    }

    async fn fetch(&self, pod: &PodName, port: u16, path: &str) -> Result<Fetched, LabError> {
        let namespace = self.view.real(&pod.namespace)?;
        let (client, of) = (&self.session().once, (namespace.as_str(), pod.name.as_str()));
        Ok(objects::fetch(client, of, port, path, PROMPT).await?)
    }

    async fn logs(&self) -> Result<Vec<String>, LabError> {
        if !self.is_whole() {
            return Ok(Vec::new());
        }
        let used = self.used.lock().await;
        let (all, own) = (String::new(), of_run(&self.session().options.run));
        // The agent's pods have no label of the run; others' logs are nobody's business.
        let made = used.made.iter().chain(used.found.get(SYSTEM_NAMESPACE)).map(|name| (name, &all));
        let found = used.found.iter().filter(|name| *name != SYSTEM_NAMESPACE).map(|name| (name, &own));
        let mut lines = Vec::new();
        for (namespace, label) in made.chain(found) {
            lines.extend(logs::of_namespace(&self.client(), namespace, label).await?);
        }
        Ok(lines)
    }

    async fn delete_pod(&self, pod: &PodName) -> Result<(), LabError> {
        let (pods, name) = (self.view.pods(&pod.namespace)?, &pod.name);
        let object = pods.get(name).await.map_err(Error::api(format!("get pod {name}")))?;
        // Without any grace the object would go before its processes.
        pods.delete(name, &DeleteParams::default().grace_period(1))
            .await
            .map_err(Error::api(format!("delete pod {name}")))?;
        let deadline = self.session().options.deadline;
        Ok(until_gone(&pods, &object, || format!("the end of pod {pod}"), deadline).await?)
    }

    fn nodes(&self) -> Vec<&dyn Node> {
        self.nodes.iter().take(self.playing).map(|node| node as &dyn Node).collect()
    }

    async fn starting(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError> {
        let (pods, deadline) = (self.view.pods(&pod.namespace)?, self.session().options.deadline);
        let what = || format!("the address of pod {pod}");
        if let Err(error) =
            until(&pods, &pod.name, what, deadline, |pod: &Pod| !addresses(pod).is_empty()).await
        {
            return Err(excused(&pods, &pod.name, error).await.into());
        }
        self.workload(pod).await
    }

    async fn workload(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError> {
        let pods = self.view.pods(&pod.namespace)?;
        let object = pods.get(&pod.name).await.map_err(Error::api(format!("get pod {}", pod.name)))?;
        let addresses = addresses(&object);
        if addresses.is_empty() {
            return Err(Error::Missing(format!("address of pod {pod}")).into());
        }
        let on = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let node = self.nodes.iter().find(|node| node.name == on);
        let node = node.ok_or_else(|| Error::Missing(format!("hand on node {on:?} of pod {pod}")))?;
        let (hand, exchange) = (node.its_hand()?, self.session().options.exchange);
        let pod = pod.clone();
        Ok(Box::new(RemotePod {
            pods,
            pod,
            addresses,
            hand,
            exchange,
            deadline: self.session().options.deadline,
        }))
    }
}
