// SPDX-License-Identifier: Apache-2.0
//! Names of the chart's objects, and an operator's pod for cleaning a node.

use cluster::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

/// Name of the agent's ConfigMap.
pub const CONFIG_MAP: &str = "istio-cni-config";
/// Name of the agent's container.
pub const CONTAINER: &str = "install-cni";

/// Job of the agent in a pod that is not its DaemonSet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Install.
    Install,
    /// `--purge`
    Purge,
}

/// A pod that runs the agent with the mounts of a DaemonSet's, once.
#[must_use]
pub fn once(name: &str, set: &Value, job: Job) -> Value {
    let mut spec = set["spec"]["template"]["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    let container = &mut spec["containers"][0];
    container["envFrom"] = Value::Null;
    if job == Job::Purge {
        container["args"] = json!(["--purge"]);
        container["readinessProbe"] = Value::Null;
    }
    let metadata = json!({ "name": name, "namespace": SYSTEM_NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// True if a right, `VERB RESOURCE …`, is about changing pods. A patch is all that a label takes; upstream's chart grants the update as well.
#[must_use]
pub fn changes_pods(right: &str) -> bool {
    let mut words = right.split(' ');
    let (verb, resource) = (words.next(), words.next().unwrap_or_default());
    matches!(verb, Some("delete" | "patch")) && resource.split('/').next() == Some("pods")
}
