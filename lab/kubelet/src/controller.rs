// SPDX-License-Identifier: Apache-2.0
//! Dispatcher: starts and stops on each node the pods that are assigned to it.

use std::sync::Arc;
use std::time::Duration;

use apiserver::store::Action;
use cluster::PodName;
use serde_json::Value;

use crate::containers::Ending;
use crate::controllers::owned::text;
use crate::informer::Informer;
use crate::life;
use crate::node::NetnsNode;

/// Follows the API's pods until aborted.
pub(crate) async fn run(nodes: Vec<Arc<NetnsNode>>, mut informer: Informer) {
    loop {
        let change = informer.next().await;
        if change.key.kind.name != "Pod" {
            continue;
        }
        let object = &*change.object;
        let assigned = object["spec"]["nodeName"].as_str();
        let node = nodes.iter().find(|node| Some(node.name.as_str()) == assigned);
        let is_gone = change.action == Action::Deleted;
        match node {
            Some(node) if is_gone => end(node, object, None),
            Some(node) if !object["metadata"]["deletionTimestamp"].is_null() => {
                end(node, object, object["metadata"]["deletionGracePeriodSeconds"].as_u64());
            }
            Some(node) => begin(node, object),
            None => {}
        }
    }
}

fn begin(node: &Arc<NetnsNode>, object: &Value) {
    // An object that cannot be read as a pod was never admitted by a real API either.
    let Ok(Some(slot)) = node.admit(object) else { return };
    tokio::spawn(life::live(Arc::clone(node), slot));
}

/// Ends a pod within this grace period, in seconds and one at least. Of an object that is gone a kubelet knows what it was before: its own grace period
/// counts, whatever that of the deletion was (`calculateEffectiveGracePeriod` in `pkg/kubelet/pod_workers.go`).
fn end(node: &Arc<NetnsNode>, object: &Value, grace: Option<u64>) {
    let Some(slot) = node.slot(&PodName::new(text(object, "namespace"), text(object, "name"))) else {
        return;
    };
    if slot.plan.uid == text(object, "uid") {
        let node = Arc::clone(node);
        let grace = grace.map_or(slot.plan.grace, |seconds| Duration::from_secs(seconds.max(1)));
        tokio::spawn(async move { node.stop(&slot, Ending::Graceful(grace)).await });
    }
}
