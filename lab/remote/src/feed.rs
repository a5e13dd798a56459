// SPDX-License-Identifier: Apache-2.0
//! Cluster-wide watches, one a kind, of whoever has a cluster to himself. A guest has [`crate::watch::Told`].

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use cluster::News;
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Service, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::watch::FROM_NOW;

/// Interval of new watches after one that the server has ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Changes of a cluster, as long as this value lives.
#[derive(Debug)]
pub struct Feed {
    changed: watch::Sender<()>,
    /// Aborted when they are dropped.
    _watches: JoinSet<()>,
}

impl Feed {
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let (changed, mut watches) = (watch::Sender::default(), JoinSet::new());
        for kind in kinds() {
            watches.spawn(hear(Api::all_with(client.clone(), &kind), changed.clone()));
        }
        Self { changed, _watches: watches }
    }

    #[must_use]
    pub fn subscribe(&self) -> Heard {
        Heard(self.changed.subscribe())
    }
}

/// Kinds that steps wait for. Their watches share [`DynamicObject`]: a type each is a copy of the watch for the compiler each, and nobody reads the objects.
fn kinds() -> [ApiResource; 13] {
    [
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Event>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Lease>(&()),
        ApiResource::erase::<Namespace>(&()),
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<ReplicaSet>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<StatefulSet>(&()),
    ]
}

/// Tells of each change, until aborted.
async fn hear(api: Api<DynamicObject>, changed: watch::Sender<()>) {
    let mut due = interval(AGAIN);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        match api.watch(&WatchParams::default(), FROM_NOW).await {
            Ok(events) => {
                let mut events = pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if !matches!(event, WatchEvent::Bookmark(_)) {
                        changed.send_replace(());
                    }
                }
            }
            // Not this user's, or not this server's. Whoever waits looks again in a while anyway.
            Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_not_found() => return,
            Err(_) => {}
        }
    }
}

/// One wait.
#[derive(Debug)]
pub struct Heard(watch::Receiver<()>);

#[async_trait]
impl News for Heard {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The session has ended.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver::{ApiServer, ServerOptions};
    use serde_json::{Value, json};

    use super::*;

    /// Enough for a busy machine, and far above what an event takes.
    const SOON: Duration = Duration::from_secs(10);

    async fn wakes(object: Value) {
        let server = ApiServer::new(ServerOptions::default()).unwrap();
        server.create_namespace("shop", &std::collections::BTreeMap::new()).unwrap();
        let feed = Feed::start(&server.client());
        let mut first = feed.subscribe();
        // The first events are those of existing objects.
        tokio::time::timeout(SOON, first.next()).await.unwrap();
        let quiet =
            async { while tokio::time::timeout(Duration::from_millis(50), first.next()).await.is_ok() {} };
        quiet.await;
        let mut news = feed.subscribe();
        server.upsert(object.clone()).unwrap();
        let woken = tokio::time::timeout(SOON, news.next()).await;
        assert!(woken.is_ok(), "nobody wakes for {object}");
    }

    #[tokio::test]
    async fn a_wait_wakes_for_each_kind_that_steps_wait_for() {
        let metadata = json!({ "name": "one", "namespace": "shop" });
        let of =
            |version: &str, kind: &str| json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
        wakes(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one" } })).await;
        wakes(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "one" } })).await;
        for kind in ["ConfigMap", "ServiceAccount"] {
            wakes(of("v1", kind)).await;
        }
        wakes(of("coordination.k8s.io/v1", "Lease")).await;
        let labels = json!({ "app": "one" });
        let containers = json!([{ "name": "app", "image": "app" }]);
        let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
        for kind in ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"] {
            let mut set = of("apps/v1", kind);
            set["spec"] = json!({ "selector": { "matchLabels": labels }, "template": template });
            wakes(set).await;
        }
        let mut job = of("batch/v1", "Job");
        job["spec"] = json!({ "template": template });
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        wakes(job).await;
        let mut pod = of("v1", "Pod");
        pod["spec"] = json!({ "containers": containers });
        wakes(pod).await;
        let mut service = of("v1", "Service");
        service["spec"] = json!({ "ports": [{ "port": 80 }] });
        wakes(service).await;
        let mut event = of("v1", "Event");
        event["involvedObject"] = json!({ "kind": "Pod", "name": "one", "namespace": "shop" });
        wakes(event).await;
    }
}
