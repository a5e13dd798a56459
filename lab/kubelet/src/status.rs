// SPDX-License-Identifier: Apache-2.0
//! A pod's status as its kubelet reports it. Only data; the node sends it.

use std::net::IpAddr;

use apiserver::Timestamp;
use cluster::PodStart;
use serde_json::{Value, json};

use crate::containers::Container;
use crate::pod::{Plan, Role};

/// The status of a pod whose start has ended as `start` says.
#[must_use]
pub fn status(
    plan: &Plan,
    start: Option<&PodStart>,
    containers: &[Container],
    addresses: &[IpAddr],
) -> Value {
    let up = matches!(start, Some(PodStart::Running { .. }));
    let of = |role: fn(Role) -> bool| -> Vec<Value> {
        plan.containers
            .iter()
            .filter(|planned| role(planned.role))
            .map(|planned| one(&planned.name, containers))
            .collect()
    };
    let main = of(|role| role == Role::Main);
    let ready = up && main.iter().all(|status| status["ready"] == true);
    json!({ "status": {
        "phase": phase(up, &main),
        "podIP": addresses.first(),
        "podIPs": addresses.iter().map(|address| json!({ "ip": address })).collect::<Vec<_>>(),
        "conditions": conditions(start, ready, !addresses.is_empty()),
        "initContainerStatuses": of(|role| role != Role::Main),
        "containerStatuses": main,
    }})
}

fn phase(up: bool, main: &[Value]) -> &'static str {
    let ended = |status: &Value| status["state"]["terminated"].is_object();
    let well = |status: &Value| status["state"]["terminated"]["exitCode"] == 0;
    if !up {
        "Pending"
    } else if !main.iter().all(ended) {
        "Running"
    } else if main.iter().all(well) {
        "Succeeded"
    } else {
        "Failed"
    }
}

fn conditions(start: Option<&PodStart>, ready: bool, sandbox: bool) -> Value {
    let condition = |kind: &str, holds: bool| {
        json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": Timestamp::now().to_string(),
        })
    };
    let mut sandbox = condition("PodReadyToStartContainers", sandbox);
    if let Some(PodStart::SandboxFailed { message, .. }) = start {
        sandbox["reason"] = json!("FailedCreatePodSandBox");
        sandbox["message"] = json!(message);
    }
    json!([
        condition("PodScheduled", true),
        sandbox,
        condition("Initialized", matches!(start, Some(PodStart::Running { .. }))),
        condition("ContainersReady", ready),
        condition("Ready", ready),
    ])
}

fn one(name: &str, containers: &[Container]) -> Value {
    let container = containers.iter().find(|container| container.name == name);
    let exit = container.map(|container| container.process.exit());
    let state = match exit {
        None => json!({ "waiting": { "reason": "ContainerCreating" } }),
        Some(None) => json!({ "running": {} }),
        Some(Some(exit)) => {
            let reason = if exit.code() == 0 { "Completed" } else { "Error" };
            json!({ "terminated": { "exitCode": exit.code(), "reason": reason } })
        }
    };
    let done_init = container.is_some_and(|container| container.role == Role::Init)
        && state["terminated"]["exitCode"] == 0;
    json!({
        "name": name,
        "image": "",
        "imageID": "",
        "restartCount": 0,
        "ready": exit == Some(None) || done_init,
        "started": exit == Some(None),
        "state": state,
    })
}

/// The event that a kubelet sends when a sandbox cannot be set up.
#[must_use]
pub fn sandbox_event(plan: &Plan, node: &str, message: &str) -> Value {
    let now = Timestamp::now().to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "generateName": format!("{}.", plan.pod.name), "namespace": plan.pod.namespace },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod",
            "namespace": plan.pod.namespace, "name": plan.pod.name, "uid": plan.uid,
        },
        "reason": "FailedCreatePodSandBox",
        "message": message,
        "type": "Warning",
        "source": { "component": "kubelet", "host": node },
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
