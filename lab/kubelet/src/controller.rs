// SPDX-License-Identifier: Apache-2.0
//! Scheduler and dispatcher: assigns pods to nodes whose taints they tolerate, and starts and stops them there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::kinds::Kind;
use apiserver::store::{Action, Key};
use apiserver::{ApiServer, Changes};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use cluster::PodName;
use k8s_openapi::api::core::v1::Pod;

use crate::containers::Ending;
use crate::daemonset;
use crate::life;
use crate::node::NetnsNode;

/// Follows the API's pods until aborted.
pub async fn run(api: ApiServer, nodes: Vec<Arc<NetnsNode>>, mut changes: Changes) {
    let mut scheduler =
        Scheduler { api: api.clone(), client: api.client(), turn: 0, waiting: BTreeMap::new() };
    loop {
        let Ok(change) = changes.next().await else {
            // Only a controller that sleeps through the API's whole history comes here.
            changes = api.subscribe();
            continue;
        };
        if change.key.kind.name == "Node" {
            scheduler.try_again(&nodes).await;
        }
        if change.key.kind.name != "Pod" {
            continue;
        }
        let object = &*change.object;
        let assigned = object["spec"]["nodeName"].as_str();
        let node = nodes.iter().find(|node| Some(node.name.as_str()) == assigned);
        let ends = change.action == Action::Deleted || !object["metadata"]["deletionTimestamp"].is_null();
        match (assigned, node) {
            (None, _) if !ends => scheduler.place(&nodes, object).await,
            (None, _) => scheduler.forget(object),
            (_, Some(node)) if ends => end(node, object),
            (_, Some(node)) => begin(node, object),
            _ => {}
        }
    }
}

/// Scheduler of pods.
struct Scheduler {
    api: ApiServer,
    client: kube::Client,
    turn: usize,
    /// Unschedulable pods, by UID.
    waiting: BTreeMap<String, Value>,
}

impl Scheduler {
    /// Binds a pod to the next node in turn that takes it; if there is none, says so, and keeps the pod for later.
    async fn place(&mut self, nodes: &[Arc<NetnsNode>], pod: &Value) {
        let wanted = pod["spec"]["nodeSelector"]["kubernetes.io/hostname"].as_str();
        let selected: Vec<_> =
            nodes.iter().filter(|node| wanted.is_none_or(|name| node.name == name)).collect();
        let taken: Vec<_> = selected.iter().filter(|node| self.refusal(node, pod).is_none()).collect();
        self.turn += 1;
        if let Some(node) = taken.get((self.turn - 1) % taken.len().max(1)) {
            self.waiting.remove(text(pod, "uid"));
            return bind(&self.client, pod, &node.name).await;
        }
        let refusals: Vec<_> = selected.iter().filter_map(|node| self.refusal(node, pod)).collect();
        self.waiting.insert(text(pod, "uid").to_owned(), pod.clone());
        let count = nodes.len();
        let message = format!("0/{count} nodes are available: {}", refusals.join(", "));
        self.tell(pod, &message).await;
    }

    async fn try_again(&mut self, nodes: &[Arc<NetnsNode>]) {
        for pod in std::mem::take(&mut self.waiting).into_values() {
            self.place(nodes, &pod).await;
        }
    }

    fn forget(&mut self, pod: &Value) {
        self.waiting.remove(text(pod, "uid"));
    }

    /// Reason why a taint keeps a pod off a node, in the scheduler's words.
    fn refusal(&self, node: &NetnsNode, pod: &Value) -> Option<String> {
        let kind = Kind::find("", "v1", "nodes")?;
        let node = self.api.object(&Key { kind, namespace: String::new(), name: node.name.clone() })?;
        let taint = daemonset::untolerated(&pod["spec"], &node)?;
        let part = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        Some(format!("1 node(s) had untolerated taint {{{}: {}}}", part("key"), part("value")))
    }

    async fn tell(&self, pod: &Value, message: &str) {
        let told = pod["status"]["conditions"].as_array();
        if told.is_some_and(|told| told.iter().any(|one| one["message"] == message)) {
            return;
        }
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        });
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), text(pod, "namespace"));
        // One that is gone meanwhile needs no word.
        let _ = pods.patch_status(text(pod, "name"), &PatchParams::default(), &patch).await;
    }
}

async fn bind(client: &kube::Client, pod: &Value, node: &str) {
    let name = PodName::new(text(pod, "namespace"), text(pod, "name"));
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name.name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &name.namespace);
    // A pod that is gone or bound meanwhile needs no node of ours.
    let _: Result<Value, _> =
        pods.create_subresource("binding", &name.name, &PostParams::default(), &binding).await;
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

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
