// SPDX-License-Identifier: Apache-2.0
//! Who runs what: gives pods to nodes, and tells each node of its pods' beginnings and ends.

use std::sync::Arc;
use std::time::Duration;

use apiserver::store::Action;
use apiserver::{ApiServer, Changes};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use cluster::PodName;
use k8s_openapi::api::core::v1::Pod;

use crate::containers::Ending;
use crate::life;
use crate::node::NetnsNode;

/// Follows the API's pods until it is aborted.
pub async fn run(api: ApiServer, nodes: Vec<Arc<NetnsNode>>, mut changes: Changes) {
    let client = api.client();
    let mut turn = 0;
    loop {
        let Ok(change) = changes.next().await else {
            // Only a controller that sleeps through the API's whole history comes here.
            changes = api.subscribe();
            continue;
        };
        if change.key.kind.name != "Pod" {
            continue;
        }
        let object = &*change.object;
        let assigned = object["spec"]["nodeName"].as_str();
        let node = nodes.iter().find(|node| Some(node.name.as_str()) == assigned);
        let ends = change.action == Action::Deleted || !object["metadata"]["deletionTimestamp"].is_null();
        match (assigned, node) {
            (None, _) if !ends => {
                if let Some(node) = choose(&nodes, object, &mut turn) {
                    bind(&client, object, &node.name).await;
                }
            }
            (_, Some(node)) if ends => end(node, object),
            (_, Some(node)) => begin(node, object),
            _ => {}
        }
    }
}

/// The next node in turn that the pod's node selector allows.
fn choose<'a>(nodes: &'a [Arc<NetnsNode>], pod: &Value, turn: &mut usize) -> Option<&'a Arc<NetnsNode>> {
    let wanted = pod["spec"]["nodeSelector"]["kubernetes.io/hostname"].as_str();
    let allowed: Vec<_> = nodes.iter().filter(|node| wanted.is_none_or(|name| node.name == name)).collect();
    *turn += 1;
    allowed.get((*turn - 1) % allowed.len().max(1)).copied()
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
