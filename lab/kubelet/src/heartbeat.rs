// SPDX-License-Identifier: Apache-2.0
//! A node's lease, by which a real control plane knows that its kubelet is alive: without it the node is unreachable after 50 s
//! (`node-monitor-grace-period`). The lab's own control plane has no use for it.

use std::time::Duration;

use apiserver::Timestamp;
use serde_json::{Value, json};

use crate::applied::apply;

/// Interval of a kubelet (`nodeLeaseDurationSeconds`, a quarter of its 40 s).
const EVERY: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "kube-node-lease";

/// Renews it, until aborted.
pub(crate) async fn keep(client: kube::Client, node: String) {
    let mut due = tokio::time::interval(EVERY);
    loop {
        due.tick().await;
        // The next one comes in time.
        let _late = apply(&client, lease(&node, Timestamp::now())).await;
    }
}

fn lease(node: &str, now: Timestamp) -> Value {
    let spec = json!({
        "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}"),
    });
    let metadata = json!({ "name": node, "namespace": NAMESPACE });
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds_as_the_api_wants_them() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let lease = lease("node-1", now);
        assert_eq!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.000000Z");
        assert_eq!(lease["metadata"], json!({ "name": "node-1", "namespace": "kube-node-lease" }));
    }
}
