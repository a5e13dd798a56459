// SPDX-License-Identifier: Apache-2.0
//! Dispatcher: has pods assigned to nodes, and starts and stops them there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::store::Action;
use apiserver::{ApiServer, Changes};
use cluster::PodName;
use serde_json::Value;

use crate::containers::Ending;
use crate::controllers::actions::list;
use crate::controllers::owned::text;
use crate::life;
use crate::node::NetnsNode;
use crate::scheduler;

/// Follows the API's pods until aborted.
pub async fn run(api: ApiServer, nodes: Vec<Arc<NetnsNode>>, mut changes: Changes) {
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let mut unscheduled =
        Unscheduled { api: api.clone(), client: api.client(), names, waiting: BTreeMap::new() };
    loop {
        let Ok(change) = changes.next().await else {
            // Only a controller that sleeps through the API's whole history comes here.
            changes = api.subscribe();
            continue;
        };
        let left = change.key.kind.name == "Pod" && change.action == Action::Deleted;
        if change.key.kind.name == "Node" || left {
            unscheduled.try_again().await;
        }
        if change.key.kind.name != "Pod" {
            continue;
        }
        let object = &*change.object;
        let assigned = object["spec"]["nodeName"].as_str();
        let node = nodes.iter().find(|node| Some(node.name.as_str()) == assigned);
        let ends = change.action == Action::Deleted || !object["metadata"]["deletionTimestamp"].is_null();
        match (assigned, node) {
            (None, _) if !ends => unscheduled.place(object).await,
            (None, _) => unscheduled.forget(object),
            (_, Some(node)) if ends => end(node, object),
            (_, Some(node)) => begin(node, object),
            _ => {}
        }
    }
}

/// Pods without a node.
struct Unscheduled {
    api: ApiServer,
    client: kube::Client,
    /// Nodes that somebody runs pods on: steps have further ones that are objects alone.
    names: Vec<String>,
    /// Pods that no node takes, by UID.
    waiting: BTreeMap<String, Value>,
}

impl Unscheduled {
    /// Binds a pod to a node; if there is none, says so, and keeps the pod for later.
    async fn place(&mut self, pod: &Value) {
        let (nodes, pods) = (list(&self.api, "Node"), list(&self.api, "Pod"));
        let (Ok(mut nodes), Ok(pods)) = (nodes, pods) else { return };
        nodes.retain(|node| self.names.iter().any(|name| name == text(node, "name")));
        match scheduler::place(pod, &nodes, &pods) {
            Ok(node) => {
                self.waiting.remove(text(pod, "uid"));
                scheduler::bind(&self.client, pod, &node).await;
            }
            Err(why) => {
                self.waiting.insert(text(pod, "uid").to_owned(), pod.clone());
                scheduler::tell(&self.client, pod, &why).await;
            }
        }
    }

    async fn try_again(&mut self) {
        for pod in std::mem::take(&mut self.waiting).into_values() {
            self.place(&pod).await;
        }
    }

    fn forget(&mut self, pod: &Value) {
        self.waiting.remove(text(pod, "uid"));
    }
}

fn begin(node: &Arc<NetnsNode>, object: &Value) {
    // An object that cannot be read as a pod was never admitted by a real API either.
    let Ok(Some(slot)) = node.admit(object) else { return };
    tokio::spawn(life::live(Arc::clone(node), slot));
}

fn end(node: &Arc<NetnsNode>, object: &Value) {
    let Some(slot) = node.slot(&PodName::new(text(object, "namespace"), text(object, "name"))) else {
        return;
    };
    if slot.plan.uid == text(object, "uid") {
        let node = Arc::clone(node);
        let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64();
        let ending = match grace {
            Some(seconds) if seconds > 0 => Ending::Graceful(Duration::from_secs(seconds)),
            _ => Ending::Kill,
        };
        tokio::spawn(async move { node.stop(&slot, ending).await });
    }
}
