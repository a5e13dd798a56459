// SPDX-License-Identifier: Apache-2.0
//! A pod's status as its kubelet reports it. Only data; the node sends it.

use apiserver::Timestamp;
use cluster::PodStart;
use serde_json::{Value, json};

use crate::containers::{Container, Ended};
use crate::pod::{Plan, Planned, Restart, Role};
use crate::probe::Seen;
use crate::sandbox::Sandbox;
use crate::slot::Parts;

/// The status of a pod that consists of `parts`; `tries_again` says whether containers that end are started again.
#[must_use]
pub fn status(plan: &Plan, parts: &Parts, tries_again: bool) -> Value {
    let containers = &parts.containers;
    let of = |role: fn(Role) -> bool| -> Vec<Value> {
        let planned = plan.containers.iter().filter(|planned| role(planned.role));
        planned.map(|planned| one(planned, containers)).collect()
    };
    let (init, main) = (of(|role| role != Role::Main), of(|role| role == Role::Main));
    let initialized = plan.containers.iter().filter(|planned| planned.role != Role::Main).all(|planned| {
        let there = containers.iter().find(|container| container.name == planned.name);
        there.is_some_and(|there| there.is_done() || there.role == Role::Sidecar)
    });
    let policy = if tries_again { plan.restart } else { Restart::Never };
    let addresses = parts.sandbox.as_ref().map_or(&[][..], Sandbox::addresses);
    let ready = initialized && main.iter().all(|status| status["ready"] == true);
    json!({ "status": {
        "phase": phase(plan, containers, initialized, policy),
        "podIP": addresses.first(),
        "podIPs": addresses.iter().map(|address| json!({ "ip": address })).collect::<Vec<_>>(),
        "conditions": conditions(parts, initialized, ready, !addresses.is_empty() || parts.sandbox.is_some()),
        "initContainerStatuses": init,
        "containerStatuses": main,
    }})
}

fn phase(plan: &Plan, containers: &[Container], initialized: bool, policy: Restart) -> &'static str {
    if !initialized {
        let failed = |container: &Container| {
            container.role == Role::Init && container.process.exit().is_some_and(|exit| exit.code() != 0)
        };
        let over = plan.restart == Restart::Never && containers.iter().any(failed);
        return if over { "Failed" } else { "Pending" };
    }
    let main: Vec<_> = containers.iter().filter(|container| container.role == Role::Main).collect();
    let planned = plan.containers.iter().filter(|planned| planned.role == Role::Main).count();
    if main.len() < planned {
        return "Pending";
    }
    if main.iter().any(|container| container.runs() || container.is_wanted(policy)) {
        return "Running";
    }
    let well = main.iter().all(|container| container.process.exit().is_some_and(|exit| exit.code() == 0));
    if well { "Succeeded" } else { "Failed" }
}

fn conditions(parts: &Parts, initialized: bool, ready: bool, sandbox: bool) -> Value {
    let condition = |kind: &str, holds: bool| {
        json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": Timestamp::now().to_string(),
        })
    };
    let mut sandbox = condition("PodReadyToStartContainers", sandbox);
    if let Some(PodStart::SandboxFailed { message, .. }) = &parts.start
        && parts.sandbox.is_none()
    {
        sandbox["reason"] = json!("FailedCreatePodSandBox");
        sandbox["message"] = json!(message);
    }
    let mut all = [condition("ContainersReady", ready), condition("Ready", ready)];
    let unready = parts.containers.iter().filter(|container| {
        container.role == Role::Main && !(container.runs() && container.seen.as_ref().is_none_or(is_ready))
    });
    let names: Vec<_> = unready.map(|container| container.name.as_str()).collect();
    if !ready {
        for condition in &mut all {
            condition["reason"] = json!("ContainersNotReady");
            condition["message"] = json!(format!("containers with unready status: {names:?}"));
        }
    }
    let [containers_ready, pod_ready] = all;
    json!([
        condition("PodScheduled", true),
        sandbox,
        condition("Initialized", initialized),
        containers_ready,
        pod_ready,
    ])
}

fn is_ready(seen: &Seen) -> bool {
    *seen == Seen::Ready
}

fn one(planned: &Planned, containers: &[Container]) -> Value {
    let name = &planned.name;
    let Some(container) = containers.iter().find(|container| container.name == *name) else {
        let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
        return json!({
            "name": name, "image": "", "imageID": "", "restartCount": 0, "ready": false, "started": false,
            "state": waiting, "lastState": {},
        });
    };
    let ended = container.ended();
    let (state, last) = match (&ended, container.backs_off) {
        (None, _) => {
            (json!({ "running": { "startedAt": container.since.to_string() } }), container.last.as_ref())
        }
        (Some(ended), false) => (terminated(ended), container.last.as_ref()),
        (Some(ended), true) => {
            let message = format!("back-off restarting failed container {name}");
            (json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } }), Some(ended))
        }
    };
    let runs = ended.is_none();
    json!({
        "name": name,
        "image": "",
        "imageID": "",
        "restartCount": container.restarts,
        "ready": container.is_done() || (runs && container.seen.as_ref().is_none_or(is_ready)),
        "started": runs,
        "state": state,
        "lastState": last.map_or_else(|| json!({}), terminated),
    })
}

fn terminated(ended: &Ended) -> Value {
    let code = ended.exit.code();
    json!({ "terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "message": if code == 0 { "" } else { ended.message.as_str() },
        "startedAt": ended.since.to_string(),
        "finishedAt": ended.at.to_string(),
    }})
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
