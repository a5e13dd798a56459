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
        let ends = change.action == Action::Deleted || !object["metadata"]["deletionTimestamp"].is_null();
        match node {
            Some(node) if ends => end(node, object),
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
