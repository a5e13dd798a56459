// SPDX-License-Identifier: Apache-2.0
//! Pods without a node get one, as [`scheduler`] decides.

use std::collections::BTreeMap;

use apiserver::ApiServer;
use apiserver::store::Action;
use serde_json::Value;

use crate::controllers::actions::list;
use crate::controllers::owned::text;
use crate::informer::Informer;
use crate::scheduler;

/// Follows the API's pods and nodes until aborted.
pub(crate) async fn run(api: ApiServer, mut informer: Informer) {
    let mut unscheduled = Unscheduled { client: api.client(), api, waiting: BTreeMap::new() };
    loop {
        let change = informer.next().await;
        let object = &*change.object;
        let ends = change.action == Action::Deleted || !object["metadata"]["deletionTimestamp"].is_null();
        match change.key.kind.name {
            "Node" => unscheduled.try_again().await,
            "Pod" => {
                if change.action == Action::Deleted {
                    unscheduled.try_again().await;
                }
                match object["spec"]["nodeName"].as_str() {
                    Some(_) => {}
                    None if ends => unscheduled.forget(object),
                    None => unscheduled.place(object).await,
                }
            }
            _ => {}
        }
    }
}

/// Pods without a node.
struct Unscheduled {
    api: ApiServer,
    client: kube::Client,
    /// Pods that no node takes, by UID.
    waiting: BTreeMap<String, Value>,
}

impl Unscheduled {
    /// Binds a pod to a node; if there is none, says so, and keeps the pod for later.
    async fn place(&mut self, pod: &Value) {
        let (nodes, pods) = (list(&self.api, "Node"), list(&self.api, "Pod"));
        let (Ok(mut nodes), Ok(pods)) = (nodes, pods) else { return };
        // Steps have further nodes that are objects alone.
        nodes.retain(|node| node["status"]["nodeInfo"]["kubeletVersion"].is_string());
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
