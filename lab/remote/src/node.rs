// SPDX-License-Identifier: Apache-2.0
//! A node that a run uses, and pods on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::{Hand, Network, Run};
use cluster::network::FAMILIES;
use cluster::{CniAnswer, CniCall, LabError, Node, NodePaths, PodName, PodStart, Position};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hand::Client;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use crate::cached;
use crate::closed::Noting;
use crate::error::Error;
use crate::start::{Progress, progress, sandbox_failure, untried};
use crate::view::View;
use crate::watch::{FROM_NOW, first_line, objects};

/// Deadline of a plugin's call.
const CALL: Duration = Duration::from_secs(60);

/// A node that a run uses.
#[derive(Debug)]
pub(crate) struct RemoteNode {
    pub(crate) name: String,
    pub(crate) view: View,
    /// Name of the list of its network, where a scenario may change it.
    pub(crate) list: Option<String>,
    /// That list.
    pub(crate) network: Value,
}

impl RemoteNode {
    /// The hand on it, which is another one after a restart.
    pub(crate) fn its_hand(&self) -> Result<Client, Error> {
        self.view.session.hand(&self.name)
    }

    /// Waits for the end of a pod's start: its status tells, or an event of its sandbox.
    async fn ended(&self, pods: &Api<Pod>, name: &str) -> Result<(Pod, PodStart), Error> {
        let events: Api<Event> =
            Api::namespaced(self.view.session.client.clone(), pods.namespace().unwrap_or_default());
        let mut events = objects(&events, "involvedObject.name", name, FROM_NOW).await?;
        // A list is of now: what a former pod of that name came to is no news.
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let now = pods.list(&named).await.map_err(Error::api(format!("list pod {name}")))?;
        let from = now.metadata.resource_version.unwrap_or_default();
        let changes = objects(pods, "metadata.name", name, &from).await?;
        let mut pods = stream::iter(now.items.into_iter().map(Ok)).chain(changes);
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
                // Which sandbox an event is about is known once the pod is.
                event = events.try_next(), if last.is_some() => {
                    let event = event?.ok_or_else(ended)?;
                    if let Some(pod) = &last && let Some(start) = sandbox_failure(&event, pod) {
                        return Ok((pod.clone(), start));
                    }
                }
            }
        }
    }

    /// A guest calls no plugins: what they did nobody would undo.
    fn may_call(&self, plugin: &str) -> Result<(), Error> {
        match self.view.session.is_whole() {
            true => Ok(()),
            false => Err(Error::Unsupported(format!("call {plugin} outside of a pod's life"))),
        }
    }

    /// Waits until each of the pod's containers that stay has said something: the lab's do when they listen.
    async fn listens(&self, pods: &Api<Pod>, pod: &Pod) -> Result<(), Error> {
        let spec = pod.spec.clone().unwrap_or_default();
        let sidecars = spec.init_containers.into_iter().flatten();
        let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
        for container in sidecars.chain(spec.containers) {
            if container.image.as_ref() == Some(&self.view.session.options.image) {
                first_line(pods, (&pod.name_any(), &container.name), "", Position::Ever).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Node for RemoteNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn network(&self) -> Value {
        self.network.clone()
    }

    async fn pod_started(&self, pod: &PodName, deadline: Duration) -> Result<PodStart, LabError> {
        let pods = self.view.pods(&pod.namespace)?;
        let start = async {
            let (object, start) = self.ended(&pods, &pod.name).await?;
            if let PodStart::Running { addresses } = &start {
                has_families(&object, addresses)?;
                self.listens(&pods, &object).await?;
            }
            Ok::<_, Error>(start)
        };
        let what = format!("the start of pod {pod}");
        match tokio::time::timeout(deadline, start).await {
            Ok(ended) => Ok(ended?),
            Err(_) => Err(excused(&pods, &pod.name, Error::Deadline { what, deadline }).await.into()),
        }
    }

    /// Lays it again where it has gone, as it does with the node's runtime.
    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError> {
        if self.its_hand()?.is_gone() {
            self.view.session.lay_hand_again(&self.name).await?;
        }
        let (node, baseline) = (self.name.clone(), self.view.session.shared_baseline());
        let (hand, list) = (self.its_hand()?, self.list.clone());
        Ok(Arc::new(Noting { hand, node, list, paths: self.directories(), baseline }))
    }

    async fn call_plugin(&self, call: CniCall) -> Result<CniAnswer, LabError> {
        self.may_call(&call.plugin)?;
        let program = self.directories().bin_dir.join(&call.plugin).display().to_string();
        let stdin = String::from_utf8_lossy(&call.stdin).into_owned();
        let run = Run {
            root: Some("/".into()),
            environment: call.env,
            stdin,
            ..Run::new(Network::Node, [program], CALL)
        };
        Ok(self.hand().await?.run(run).await?)
    }

    async fn last_add(&self, plugin: &str, pod: &str) -> Result<CniCall, LabError> {
        self.may_call(plugin)?;
        let NodePaths { cache_dir, bin_dir, .. } = self.directories();
        let (hand, results) = (self.hand().await?, cache_dir.join("results"));
        for entry in hand.list(&results).await? {
            // Another pod's may go meanwhile.
            let entry = hand.read(&results.join(entry.name)).await.unwrap_or_default();
            if let Some(call) = cached::add(&entry, pod, plugin, &bin_dir) {
                return Ok(call);
            }
        }
        Err(Error::Unsupported(format!("tell how {plugin} was called for {pod}")).into())
    }
}

/// Error of a start: one that is late is no fault of the system under test if nobody has tried it.
pub(crate) async fn excused(pods: &Api<Pod>, name: &str, error: Error) -> Error {
    if !matches!(error, Error::Deadline { .. }) {
        return error;
    }
    let pod = pods.get_opt(name).await.ok().flatten();
    pod.and_then(|pod| untried(&pod))
        .map_or(error, |why| Error::Missing(format!("node for pod {name}: {why}")))
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
    Err(Error::Unmet(format!("give a pod addresses of {wanted}: it has {found}")))
}
