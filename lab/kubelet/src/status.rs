// SPDX-License-Identifier: Apache-2.0
//! A pod's status as its kubelet reports it. Only data; the node sends it.

use std::net::IpAddr;

use apiserver::Timestamp;
use cluster::PodStart;
use serde_json::{Value, json};

use crate::containers::{Container, Ended};
use crate::pod::{ContainerRole, Plan, Planned, Restart};
use crate::probe::Seen;
use crate::slot::Parts;

/// The status of a pod that consists of `parts`; `tries_again` says whether containers that end are started again.
#[must_use]
pub(crate) fn status(plan: &Plan, parts: &mut Parts, tries_again: bool, host: &[IpAddr]) -> Value {
    let containers = &parts.containers;
    let has_init = plan.containers.iter().any(|planned| planned.role != ContainerRole::Main);
    let created = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let of = |role: fn(ContainerRole) -> bool| -> Vec<Value> {
        let planned = plan.containers.iter().filter(|planned| role(planned.role));
        planned.map(|planned| one(planned, containers, &waiting(planned, parts, created))).collect()
    };
    let (init, main) = (of(|role| role != ContainerRole::Main), of(|role| role == ContainerRole::Main));
    let initialized =
        plan.containers.iter().filter(|planned| planned.role != ContainerRole::Main).all(|planned| {
            let there = containers.iter().find(|container| container.name == planned.name);
            there.is_some_and(|there| there.is_done() || there.role == ContainerRole::Sidecar)
        });
    let policy = if tries_again { plan.restart } else { Restart::Never };
    let addresses: Vec<_> = match &parts.sandbox {
        // The node's own, as soon as it has any (`generateAPIPodStatus`).
        _ if plan.host_network => host.to_vec(),
        Some(sandbox) => sandbox.addresses().to_vec(),
        None => Vec::new(),
    };
    let ready = initialized && main.iter().all(|status| status["ready"] == true);
    let phase = phase(plan, containers, initialized, policy);
    json!({ "status": {
        "phase": phase,
        "hostIP": host.first(),
        "hostIPs": host.iter().map(|address| json!({ "ip": address })).collect::<Vec<_>>(),
        "podIP": addresses.first(),
        "podIPs": addresses.iter().map(|address| json!({ "ip": address })).collect::<Vec<_>>(),
        "conditions": conditions(parts, initialized, ready),
        "initContainerStatuses": init,
        "containerStatuses": main,
    }})
}

fn phase(plan: &Plan, containers: &[Container], initialized: bool, policy: Restart) -> &'static str {
    if !initialized {
        let failed = |container: &Container| {
            container.role == ContainerRole::Init
                && container.process.exit().is_some_and(|exit| exit.code() != 0)
        };
        let over = plan.restart == Restart::Never && containers.iter().any(failed);
        return if over { "Failed" } else { "Pending" };
    }
    let main: Vec<_> = containers.iter().filter(|container| container.role == ContainerRole::Main).collect();
    let planned = plan.containers.iter().filter(|planned| planned.role == ContainerRole::Main).count();
    if main.len() < planned {
        return "Pending";
    }
    if main.iter().any(|container| container.runs() || container.is_wanted(policy)) {
        return "Running";
    }
    let well = main.iter().all(|container| container.process.exit().is_some_and(|exit| exit.code() == 0));
    if well { "Succeeded" } else { "Failed" }
}

fn conditions(parts: &mut Parts, initialized: bool, ready: bool) -> Value {
    let kinds = [
        ("PodScheduled", true),
        ("PodReadyToStartContainers", parts.sandbox.is_some()),
        ("Initialized", initialized),
        ("ContainersReady", ready),
        ("Ready", ready),
    ];
    let why = match &parts.start {
        Some(PodStart::SandboxFailed { message, .. } | PodStart::LabFailed { why: message })
            if parts.sandbox.is_none() && !parts.lacks_network =>
        {
            Some(message.clone())
        }
        _ => None,
    };
    let not_ready = |container: &&Container| {
        container.role == ContainerRole::Main
            && !(container.runs() && container.seen.as_ref().is_none_or(is_ready))
    };
    let unready = parts.containers.iter().filter(not_ready).map(|container| container.name.as_str());
    let unready = format!("containers with unready status: [{}]", unready.collect::<Vec<_>>().join(" "));
    let condition = |(kind, holds): (&'static str, bool)| {
        let known = parts.conditions.get(kind).filter(|(before, _)| *before == holds);
        let (_, since) = known.copied().unwrap_or_else(|| (holds, Timestamp::now()));
        parts.conditions.insert(kind, (holds, since));
        let status = if holds { "True" } else { "False" };
        let mut one = json!({ "type": kind, "status": status, "lastTransitionTime": since.to_string() });
        match (kind, &why) {
            ("PodReadyToStartContainers", Some(why)) => {
                (one["reason"], one["message"]) = (json!("FailedCreatePodSandBox"), json!(why));
            }
            ("ContainersReady" | "Ready", _) if !holds => {
                (one["reason"], one["message"]) = (json!("ContainersNotReady"), json!(unready));
            }
            _ => {}
        }
        one
    };
    kinds.into_iter().map(condition).collect()
}

fn is_ready(seen: &Seen) -> bool {
    *seen == Seen::Ready
}

/// State of a container that never ran; `created` is the reason of one that nothing is wrong with.
fn waiting(planned: &Planned, parts: &Parts, created: &str) -> Value {
    let unpulled = parts.unpulled.as_ref().filter(|unpulled| unpulled.container == planned.name);
    match unpulled {
        None => json!({ "reason": created }),
        Some(unpulled) if unpulled.backs_off => {
            let why = format!("Back-off pulling image {:?}: ErrImagePull: {}", planned.image, unpulled.why);
            json!({ "reason": "ImagePullBackOff", "message": why })
        }
        Some(unpulled) => json!({ "reason": "ErrImagePull", "message": unpulled.why }),
    }
}

fn one(planned: &Planned, containers: &[Container], waiting: &Value) -> Value {
    let name = &planned.name;
    let Some(container) = containers.iter().find(|container| container.name == *name) else {
        let waiting = json!({ "waiting": waiting });
        return json!({
            "name": name, "image": planned.image, "imageID": "", "restartCount": 0, "ready": false, "started": false,
            "state": waiting, "lastState": {},
        });
    };
    let ended = container.ended();
    let (state, last) = match (&ended, container.backs_off) {
        (None, _) => {
            (json!({ "running": { "startedAt": seconds(container.since) } }), container.last.as_ref())
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
        "image": planned.image,
        "imageID": "",
        // A runtime's ID leads to its process, and that to the pod's namespaces. Here it is the process. A container that has ended keeps it.
        "containerID": container.process.first_pid().map(|pid| format!("lab://{pid}")),
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
        "startedAt": seconds(ended.since),
        "finishedAt": seconds(ended.at),
    }})
}

/// RFC 3339 in whole seconds.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Event that a kubelet emits on a pod.
#[must_use]
pub(crate) fn warning(plan: &Plan, node: &str, reason: &str, message: &str) -> Value {
    let now = Timestamp::now().to_string();
    json!({
        "metadata": { "generateName": format!("{}.", plan.pod.name), "namespace": plan.pod.namespace },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod",
            "namespace": plan.pod.namespace, "name": plan.pod.name, "uid": plan.uid,
        },
        "reason": reason,
        "message": message,
        "type": "Warning",
        "source": { "component": "kubelet", "host": node },
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
