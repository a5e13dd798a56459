// SPDX-License-Identifier: Apache-2.0
//! One scenario's view of the cluster: namespaces of its own, whose names carry the run's and the scenario's, and one node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::Hand;
use cluster::{Cluster, CniAnswer, CniCall, LabError, News, Node, PodName, PodStart, Workload};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::error::{Error, TIER};
use crate::session::{Session, from, make_namespace};
use crate::start::{Progress, addresses, progress, sandbox_failure};
use crate::watch::{Told, first_line, objects, until_gone};
use crate::workload::RemotePod;

/// Annotations of the lab's base plugin: a cluster's own network knows none of them.
const FAMILIES: &str = "lab.millrace.dev/families";
const NETWORKS: &str = "lab.millrace.dev/networks";

/// The sysctl that says from which port on anybody may listen.
const LOW_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";

/// Image of the lab's pods as scenarios name it.
const IMAGE: &str = "workload";

/// A real kubelet probes and reports in seconds, and nodes are busy with others.
const PATIENCE: u32 = 3;

/// Namespaces that belong to the cluster, and that the lab leaves alone.
const NOT_OURS: [&str; 2] = ["kube-system", "istio-system"];

/// A cluster as one scenario sees it.
#[derive(Debug)]
pub struct RemoteCluster {
    node: RemoteNode,
    made: Mutex<BTreeSet<String>>,
}

impl RemoteCluster {
    /// A view for one scenario.
    #[must_use]
    pub fn new(session: &Session) -> Self {
        let prefix = format!("cnilab-{}-{}", session.options.run, session.number());
        Self { node: RemoteNode { session: session.clone(), prefix }, made: Mutex::default() }
    }

    fn session(&self) -> &Session {
        &self.node.session
    }

    /// A client of the API.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.session().client.clone()
    }

    async fn has_namespace(&self, name: &str) -> Result<(), Error> {
        let mut made = self.made.lock().await;
        if made.contains(name) {
            return Ok(());
        }
        make_namespace(&self.client(), name, &self.session().options.run).await?;
        made.insert(name.to_owned());
        Ok(())
    }

    async fn create(&self, object: &Value) -> Result<Value, Error> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let name = self.node.real(namespace)?;
        let pod = self.node.adapt(object, &name)?;
        self.has_namespace(&name).await?;
        let pods: Api<Pod> = Api::namespaced(self.client(), &name);
        let made = pods.create(&PostParams::default(), &pod).await.map_err(Error::api("make a pod"))?;
        Ok(serde_json::to_value(made)?)
    }

    /// Removes what the scenario made. Its namespaces are asked to go, and waited for at the end of the run.
    ///
    /// # Errors
    /// The API server rejects it.
    pub async fn end(&self) -> Result<(), LabError> {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client());
        for name in std::mem::take(&mut *self.made.lock().await) {
            let deleted = namespaces.delete(&name, &DeleteParams::default()).await;
            deleted.map_err(Error::api(format!("delete namespace {name}")))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Cluster for RemoteCluster {
    fn tier(&self) -> &'static str {
        TIER
    }

    async fn apply(&self, object: Value) -> Result<Value, LabError> {
        if object["kind"] == "Pod" {
            return Ok(self.create(&object).await?);
        }
        Err(Error::Unsupported(format!("apply a {}", object["kind"].as_str().unwrap_or("nameless object")))
            .into())
    }

    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Value>, LabError> {
        let found = self.node.pods(namespace)?.get_opt(name).await.map_err(Error::api("get a pod"))?;
        Ok(found.map(serde_json::to_value).transpose().map_err(Error::from)?)
    }

    fn patience(&self) -> u32 {
        PATIENCE
    }

    async fn news(&self) -> Result<Box<dyn News>, LabError> {
        let made = self.made.lock().await.clone();
        Ok(Box::new(Told::of(&self.client(), &made).await?))
    }

    async fn delete_pod(&self, namespace: &str, name: &str) -> Result<(), LabError> {
        let pods = self.node.pods(namespace)?;
        let pod = pods.get(name).await.map_err(Error::api(format!("get pod {name}")))?;
        pods.delete(name, &DeleteParams::default().grace_period(0))
            .await
            .map_err(Error::api(format!("delete pod {name}")))?;
        let deadline = self.session().options.deadline;
        Ok(until_gone(&pods, &pod, || format!("the end of pod {namespace}/{name}"), deadline).await?)
    }

    fn nodes(&self) -> Vec<&dyn Node> {
        vec![&self.node]
    }

    async fn workload(&self, namespace: &str, name: &str) -> Result<Box<dyn Workload>, LabError> {
        let pods = self.node.pods(namespace)?;
        let pod = pods.get(name).await.map_err(Error::api(format!("get pod {name}")))?;
        let addresses = addresses(&pod);
        if addresses.is_empty() {
            return Err(Error::Missing(format!("address of pod {namespace}/{name}")).into());
        }
        let (hand, exchange) = (self.session().hand.clone(), self.session().options.exchange);
        let pod = PodName::new(namespace, name);
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

/// The node that a run uses.
#[derive(Debug)]
struct RemoteNode {
    session: Session,
    prefix: String,
}

impl RemoteNode {
    /// The name in the cluster of a namespace that a scenario names.
    fn real(&self, namespace: &str) -> Result<String, Error> {
        if NOT_OURS.contains(&namespace) {
            return Err(Error::Unsupported(format!(
                "make pods in namespace {namespace}, which is not the lab's"
            )));
        }
        Ok(format!("{}-{namespace}", self.prefix))
    }

    fn pods(&self, namespace: &str) -> Result<Api<Pod>, Error> {
        Ok(Api::namespaced(self.session.client.clone(), &self.real(namespace)?))
    }

    /// A scenario's pod for this cluster.
    fn adapt(&self, object: &Value, namespace: &str) -> Result<Pod, Error> {
        if object["metadata"]["annotations"][NETWORKS].is_string() {
            return Err(Error::Unsupported("add networks to a pod".to_owned()));
        }
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(namespace);
        let spec = &mut object["spec"];
        spec["terminationGracePeriodSeconds"] = json!(0);
        spec["automountServiceAccountToken"] = json!(false);
        let resolvers = spec["dnsConfig"]["nameservers"].as_array().map_or(0, Vec::len);
        if resolvers == 0 {
            // A real API server demands one with the policy None.
            spec["dnsPolicy"] = json!("Default");
            spec["dnsConfig"] = Value::Null;
        }
        if spec["hostNetwork"] != true && spec["securityContext"]["sysctls"].is_null() {
            // containerd lets anybody listen on low ports, CRI-O does not; a safe sysctl, which is the pod's own.
            spec["securityContext"]["sysctls"] = json!([{ "name": LOW_PORTS, "value": "0" }]);
        }
        for kind in ["initContainers", "containers"] {
            for container in spec[kind].as_array_mut().into_iter().flatten() {
                if container["image"] == IMAGE {
                    container["image"] = json!(self.session.options.image);
                }
                container["imagePullPolicy"] = json!("IfNotPresent");
            }
        }
        from(object)
    }

    /// Waits for the end of a pod's start: its status tells, or an event of its sandbox.
    async fn ended(&self, pods: &Api<Pod>, name: &str) -> Result<(Pod, PodStart), Error> {
        let events: Api<Event> =
            Api::namespaced(self.session.client.clone(), pods.namespace().unwrap_or_default());
        let mut events = objects(&events, "involvedObject.name", name).await?;
        let mut pods = objects(pods, "metadata.name", name).await?;
        let ended =
            || Error::Watch { what: format!("pod {name}"), why: "the server ended the watch".to_owned() };
        let mut last = None;
        loop {
            tokio::select! {
                pod = pods.try_next() => {
                    let pod = pod?.ok_or_else(ended)?;
                    match progress(&pod) {
                        Progress::Starting => last = Some(pod),
                        Progress::Ended(start) => return Ok((pod, start)),
                        Progress::NoImage(why) => return Err(Error::Missing(format!("image {why}"))),
                    }
                }
                event = events.try_next() => {
                    let event = event?.ok_or_else(ended)?;
                    if let Some(pod) = &last && let Some(start) = sandbox_failure(&event, pod) {
                        return Ok((pod.clone(), start));
                    }
                }
            }
        }
    }

    /// Waits until each of the pod's containers that stay has said something: the lab's do when they listen.
    async fn listens(&self, pods: &Api<Pod>, pod: &Pod) -> Result<(), Error> {
        let spec = pod.spec.clone().unwrap_or_default();
        let sidecars = spec.init_containers.into_iter().flatten();
        let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
        for container in sidecars.chain(spec.containers) {
            if container.image.as_ref() == Some(&self.session.options.image) {
                first_line(pods, &pod.name_any(), &container.name, "").await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Node for RemoteNode {
    fn name(&self) -> &str {
        &self.session.node
    }

    async fn write_conflist(&self, file: &str, _text: &str) -> Result<(), LabError> {
        Err(Error::Unsupported(format!("write {file} of a node's network configuration")).into())
    }

    async fn pod_started(
        &self,
        namespace: &str,
        name: &str,
        deadline: Duration,
    ) -> Result<PodStart, LabError> {
        let pods = self.pods(namespace)?;
        let start = async {
            let (pod, start) = self.ended(&pods, name).await?;
            if let PodStart::Running { addresses } = &start {
                has_families(&pod, addresses)?;
                self.listens(&pods, &pod).await?;
            }
            Ok::<_, Error>(start)
        };
        let what = || format!("the start of pod {namespace}/{name}");
        let ended = tokio::time::timeout(deadline, start).await;
        Ok(ended.map_err(|_| Error::Deadline { what: what(), deadline })??)
    }

    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError> {
        Ok(Arc::new(self.session.hand.clone()))
    }

    async fn call_plugin(&self, call: CniCall) -> Result<CniAnswer, LabError> {
        Err(Error::Unsupported(format!("call {} outside of a pod's life", call.plugin)).into())
    }
}

/// A scenario that speaks of families needs a cluster that gives them, in that order.
fn has_families(pod: &Pod, addresses: &[std::net::IpAddr]) -> Result<(), Error> {
    let Some(wanted) = pod.annotations().get(FAMILIES) else { return Ok(()) };
    let families: Vec<_> = addresses.iter().map(|one| if one.is_ipv4() { "v4" } else { "v6" }).collect();
    let found = families.join(",");
    // With IPv4 alone a scenario does not mind a second family, with others it does.
    if found == *wanted || (wanted == "v4" && families.first() == Some(&"v4")) {
        return Ok(());
    }
    Err(Error::Unsupported(format!("give a pod addresses of {wanted}: it has {found}")))
}
