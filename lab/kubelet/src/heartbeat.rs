// SPDX-License-Identifier: Apache-2.0
//! A node's lease, by which a real control plane knows that its kubelet is alive: without it the node is unreachable after 50 s
//! (`node-monitor-grace-period`). The lab's own control plane has no use for it.

use std::time::Duration;

use apiserver::Timestamp;
use serde_json::json;

use crate::applied::apply;

/// Interval of a kubelet (`nodeLeaseDurationSeconds`, a quarter of its 40 s).
const EVERY: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "kube-node-lease";

/// Renews it, until aborted.
pub(crate) async fn keep(client: kube::Client, node: String) {
    let mut due = tokio::time::interval(EVERY);
    loop {
        due.tick().await;
        let now = Timestamp::now();
        let time = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let spec =
            json!({ "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": format!("{time:.6}") });
        let metadata = json!({ "name": node, "namespace": NAMESPACE });
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
        });
        // The next one comes in time.
        let _late = apply(&client, lease).await;
    }
}
