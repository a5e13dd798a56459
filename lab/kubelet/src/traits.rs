// SPDX-License-Identifier: Apache-2.0
//! The vocabulary of features, spoken by this tier.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::ROOT_CA;
use async_trait::async_trait;
use cluster::hand::Hand;
use cluster::{
    AgentStandIn, ChainFailure, Cluster, CniAnswer, CniCall, Fetched, Front, Issuer, Kernel, Kubelet,
    LabError, Machines, News, Node, NodePaths, PodName, PodStart, RuntimeCall, Server, Workload,
};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::applied::apply;
use crate::cni::chain::{Attachment, ChainError};
use crate::controllers::actions::api_of;
use crate::error::Error;
use crate::node::NetnsNode;
use crate::tier::NetnsCluster;
use crate::unplayed;

#[async_trait]
impl Cluster for NetnsCluster {
    fn tier(&self) -> &'static str {
        crate::TIER
    }

    fn plays(&self, object: &Value) -> Result<(), LabError> {
        unplayed::check(object)
    }

    async fn apply(&self, object: Value) -> Result<Value, LabError> {
        self.plays(&object)?;
        let applied = apply(self.client(), object).await?;
        if applied["kind"] == "Namespace" && self.plane.is_none() {
            self.until_furnished(applied["metadata"]["name"].as_str().unwrap_or_default()).await?;
        }
        Ok(applied)
    }

    async fn pod(&self, pod: &PodName) -> Result<Option<Value>, LabError> {
        let found =
            api_of(self.client(), "Pod", &pod.namespace)?.get_opt(&pod.name).await.map_err(Error::from)?;
        Ok(found.map(serde_json::to_value).transpose().map_err(Error::from)?)
    }

    async fn delete_pod(&self, pod: &PodName) -> Result<(), LabError> {
        let slot = self.nodes.iter().find_map(|node| node.slot(pod));
        let pods: Api<Pod> = Api::namespaced(self.client().clone(), &pod.namespace);
        pods.delete(&pod.name, &DeleteParams::default()).await.map_err(Error::from)?;
        match slot {
            Some(slot) => Ok(slot.gone(self.options.deadlines.pod).await?),
            None => Ok(()),
        }
    }

    fn nodes(&self) -> Vec<&dyn Node> {
        self.nodes.iter().map(|node| &**node as &dyn Node).collect()
    }

    async fn workload(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError> {
        Ok(Box::new(self.find(pod).await?))
    }

    async fn starting(&self, pod: &PodName) -> Result<Box<dyn Workload>, LabError> {
        Ok(Box::new(self.find_starting(pod).await?))
    }

    async fn news(&self) -> Result<Box<dyn News>, LabError> {
        Ok(Box::new(Heard { objects: (self.access.news)(), requests: self.front.traffic() }))
    }

    fn server(&self) -> Result<&dyn Server, LabError> {
        let plane = self.plane.as_ref().ok_or(Error::Foreign("reach into the API server"))?;
        Ok(plane)
    }

    fn issuer(&self) -> Result<&dyn Issuer, LabError> {
        Ok(&*self.access.issuer)
    }

    fn kubelet(&self) -> Result<&dyn Kubelet, LabError> {
        Ok(self)
    }

    fn machines(&self) -> Result<&dyn Machines, LabError> {
        Ok(self)
    }

    async fn exec(&self, pod: &PodName, container: &str, words: &[&str]) -> Result<CniAnswer, LabError> {
        Ok(self.run_in(pod, container, words).await?)
    }

    async fn fetch(&self, pod: &PodName, port: u16, path: &str) -> Result<Fetched, LabError> {
        Ok(self.asked_for(pod, port, path).await?)
    }

    fn front(&self) -> Result<&dyn Front, LabError> {
        Ok(&self.front)
    }

    fn patience(&self) -> u32 {
        self.options.patience
    }

    async fn comes_up(&self, pod: &PodName, deadline: Duration) -> Result<(), LabError> {
        let (begun, late) =
            (Instant::now(), || Error::Deadline { what: format!("the start of pod {pod}"), deadline });
        let seen = tokio::time::timeout(deadline, self.seen(pod)).await.map_err(|_| late())??;
        Ok(seen.slot.running(deadline.saturating_sub(begun.elapsed())).await?)
    }

    async fn logs(&self) -> Result<Vec<String>, LabError> {
        Ok(self.nodes.iter().flat_map(|node| node.logs()).collect())
    }
}

#[async_trait]
impl Node for NetnsNode {
    fn name(&self) -> &str {
        &self.name
    }

    async fn pod_started(&self, pod: &PodName, deadline: Duration) -> Result<PodStart, LabError> {
        let start = async { self.until_seen(pod).await.started(deadline).await };
        let late = || Error::Deadline { what: format!("the start of pod {pod}"), deadline };
        of_product(pod, tokio::time::timeout(deadline, start).await.map_err(|_| late())??)
    }

    async fn call_plugin(&self, call: CniCall) -> Result<CniAnswer, LabError> {
        Ok(self.chain.call(call).await?)
    }

    async fn call_plugin_on(&self, call: CniCall, kernel: &Kernel) -> Result<CniAnswer, LabError> {
        Ok(self.chain.call_on(call, kernel).await?)
    }

    fn cni_calls(&self) -> Result<Vec<(CniCall, CniAnswer)>, LabError> {
        Ok(self.chain.calls())
    }

    fn loaded(&self) -> Result<Vec<String>, LabError> {
        Ok(self.chain.loaded())
    }

    fn lost_networks(&self) -> Result<Vec<String>, LabError> {
        Ok(self.chain.lost().borrow().clone())
    }

    fn paths(&self) -> Result<NodePaths, LabError> {
        Ok(self.paths.clone())
    }

    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError> {
        Ok(Arc::new(NetnsNode::hand(self).await?))
    }

    fn network(&self) -> Value {
        self.default_network()
    }

    async fn retry_pod(&self, pod: &PodName, deadline: Duration) -> Result<PodStart, LabError> {
        let slot = self.slot(pod).ok_or_else(|| Error::Missing(format!("pod {}", pod.name)))?;
        let late = || Error::Deadline { what: format!("the start of pod {}", pod.name), deadline };
        let start = tokio::time::timeout(deadline, self.start_anew(&slot)).await.map_err(|_| late())?;
        of_product(pod, start)
    }

    async fn runtime_call(&self, call: RuntimeCall) -> Result<Result<(), ChainFailure>, LabError> {
        let done = match call {
            RuntimeCall::Check(pod) => self.chain.check(&self.attachment(&pod).await?).await,
            RuntimeCall::Del(pod) => self.chain.del(&self.attachment(&pod).await?).await,
            RuntimeCall::Status => self.chain.status().await,
            RuntimeCall::Gc => self.chain.gc(&self.attachments().await).await,
        };
        match done {
            Ok(()) => Ok(Ok(())),
            Err(ChainError::Chain(failure)) => Ok(Err(failure)),
            Err(ChainError::Lab(error)) => Err(error.into()),
        }
    }

    async fn set_agent(&self, agent: AgentStandIn) -> Result<(), LabError> {
        Ok(self.agent.become_(agent, self.options.deadlines.process).await?)
    }

    fn agent_requests(&self) -> Vec<Value> {
        self.agent.requests()
    }
}

/// Changes of objects.
struct Heard {
    objects: Box<dyn News>,
    /// At the front.
    requests: watch::Receiver<u64>,
}

#[async_trait]
impl News for Heard {
    async fn next(&mut self) {
        tokio::select! {
            () = self.objects.next() => {}
            moved = self.requests.changed() => if moved.is_err() {
                // The front is gone, and nobody asks any more.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A start as features know it: a failure of the lab is no result.
fn of_product(pod: &PodName, start: PodStart) -> Result<PodStart, LabError> {
    match start {
        PodStart::LabFailed { why } => Err(LabError::harness(format!("start pod {pod}"), why)),
        ended => Ok(ended),
    }
}

impl NetnsCluster {
    /// Waits for what controllers make in a new namespace: the account `default`, and the authorities that pods trust.
    async fn until_furnished(&self, namespace: &str) -> Result<(), Error> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().clone(), namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client().clone(), namespace);
        let made = async { tokio::try_join!(until_made(&accounts, "default"), until_made(&maps, ROOT_CA)) };
        let deadline = self.options.deadlines.pod;
        let what = || format!("the account and the authorities of namespace {namespace}");
        let made = tokio::time::timeout(deadline, made).await;
        made.map_err(|_| Error::Deadline { what: what(), deadline })?.map(|_| ())
    }
}

/// Waits for an object.
async fn until_made<K>(objects: &Api<K>, name: &str) -> Result<(), Error>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let events = objects.watch(&WatchParams::default().fields(&format!("metadata.name={name}")), "0").await?;
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        if matches!(event, WatchEvent::Added(_)) {
            break;
        }
    }
    Ok(())
}

impl NetnsNode {
    async fn attachment(&self, pod: &PodName) -> Result<Attachment, Error> {
        let missing = || Error::Missing(format!("sandbox of pod {}", pod.name));
        let slot = self.slot(pod).ok_or_else(missing)?;
        let parts = slot.parts.lock().await;
        parts.sandbox.as_ref().and_then(|sandbox| sandbox.attachment()).cloned().ok_or_else(missing)
    }

    pub(crate) async fn attachments(&self) -> Vec<Attachment> {
        let mut all = Vec::new();
        for slot in self.slots() {
            let parts = slot.parts.lock().await;
            all.extend(parts.sandbox.as_ref().and_then(|sandbox| sandbox.attachment()).cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_the_lab_failed_is_an_error_of_the_lab() {
        let pod = PodName::new("shop", "cart");
        let failed = of_product(&pod, PodStart::LabFailed { why: "no memory".to_owned() });
        assert!(matches!(failed, Err(LabError::Harness { why, .. }) if why == "no memory"));
        let refused = PodStart::SandboxFailed { code: Some(11), message: "try again".to_owned() };
        assert_eq!(of_product(&pod, refused.clone()).unwrap(), refused);
    }
}
