// SPDX-License-Identifier: Apache-2.0
//! A pod's cells: how many of its containers are ready, and the one word for what it is up to.

use cluster::condition::{holding, is_ready};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::columns::{self, or_none};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let seen = look(pod);
    let restarts = match seen.last_restart {
        Some(last) if seen.restarts > 0 => format!("{} ({} ago)", seen.restarts, age::between(last, now)),
        _ => seen.restarts.to_string(),
    };
    vec![
        columns::name(pod),
        format!("{}/{}", seen.ready, total(pod)).into(),
        seen.reason.into(),
        restarts.into(),
        columns::age(pod, now),
        or_none(&pod["status"]["podIP"]),
        or_none(&pod["spec"]["nodeName"]),
        or_none(&pod["status"]["nominatedNodeName"]),
        gates(pod).into(),
    ]
}

/// Cells that follow from a pod's containers.
struct Seen {
    reason: String,
    ready: usize,
    restarts: u64,
    last_restart: Option<Timestamp>,
}

impl Seen {
    fn count(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_u64().unwrap_or(0);
        let ended = container["lastState"]["terminated"]["finishedAt"].as_str();
        self.last_restart = self.last_restart.max(ended.and_then(|time| time.parse().ok()));
    }
}

fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().map_or(&[], Vec::as_slice)
}

fn is_sidecar(pod: &Value, name: &Value) -> bool {
    let init = list(&pod["spec"], "initContainers").iter().find(|one| one["name"] == *name);
    init.is_some_and(|one| one["restartPolicy"] == "Always")
}

/// Containers that are to be ready: the usual ones, and native sidecars.
fn total(pod: &Value) -> usize {
    let inits = list(&pod["spec"], "initContainers").iter();
    let sidecars = inits.filter(|one| one["restartPolicy"] == "Always").count();
    list(&pod["spec"], "containers").len() + sidecars
}

fn gates(pod: &Value) -> String {
    let gates = list(&pod["spec"], "readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| holding(pod, gate["conditionType"].as_str().unwrap_or_default()).is_some());
    format!("{}/{}", open.count(), gates.len())
}

/// `Error`, or how a process ended without a reason.
fn ending(terminated: &Value) -> String {
    let number = |field: &str| terminated[field].as_i64().unwrap_or(0);
    match (terminated["reason"].as_str().unwrap_or_default(), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn look(pod: &Value) -> Seen {
    let status = &pod["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let phase = text(&status["phase"]);
    let mut reason = text(&status["reason"]);
    if reason.is_empty() {
        reason.clone_from(&phase);
    }
    let gated = |one: &Value| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated";
    if list(status, "conditions").iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut seen = Seen { reason, ready: 0, restarts: 0, last_restart: None };
    let is_initializing = initialization(pod, &mut seen);
    if !is_initializing || holding(pod, "Initialized").is_some() {
        run(pod, &mut seen);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut seen.reason);
        } else if !["Succeeded", "Failed"].contains(&phase.as_str()) {
            "Terminating".clone_into(&mut seen.reason);
        }
    }
    seen
}

/// Looks at init containers up to the first one that is not done; true if there is such a one.
fn initialization(pod: &Value, seen: &mut Seen) -> bool {
    let all = list(&pod["spec"], "initContainers").len();
    for (place, container) in list(&pod["status"], "initContainerStatuses").iter().enumerate() {
        seen.count(container);
        let state = &container["state"];
        let waits = state["waiting"]["reason"].as_str().unwrap_or_default();
        if state["terminated"]["exitCode"] == 0 {
            continue;
        }
        if is_sidecar(pod, &container["name"]) && container["started"] == true {
            seen.ready += usize::from(container["ready"] == true);
            continue;
        }
        seen.reason = if !state["terminated"].is_null() {
            format!("Init:{}", ending(&state["terminated"]))
        } else if !["", "PodInitializing"].contains(&waits) {
            format!("Init:{waits}")
        } else {
            format!("Init:{place}/{all}")
        };
        return true;
    }
    false
}

/// Looks at the usual containers; of init containers' restarts those of sidecars count from here on.
fn run(pod: &Value, seen: &mut Seen) {
    (seen.restarts, seen.last_restart) = (0, None);
    let inits = list(&pod["status"], "initContainerStatuses").iter();
    inits.filter(|one| is_sidecar(pod, &one["name"])).for_each(|one| seen.count(one));
    let mut runs = false;
    for container in list(&pod["status"], "containerStatuses").iter().rev() {
        seen.count(container);
        let state = &container["state"];
        match state["waiting"]["reason"].as_str() {
            Some(waits) if !waits.is_empty() => waits.clone_into(&mut seen.reason),
            _ if !state["terminated"].is_null() => seen.reason = ending(&state["terminated"]),
            _ if container["ready"] == true && !state["running"].is_null() => {
                runs = true;
                seen.ready += 1;
            }
            _ => {}
        }
    }
    if seen.reason == "Completed" && runs {
        if is_ready(pod) { "Running" } else { "NotReady" }.clone_into(&mut seen.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    /// READY, STATUS and RESTARTS.
    fn of(spec: &Value, status: &Value) -> String {
        let pod = json!({
            "metadata": { "name": "cart", "creationTimestamp": "2026-01-02T03:00:05Z" },
            "spec": spec, "status": status,
        });
        let cells = cells(&pod, now());
        assert_eq!((&cells[0], &cells[4]), (&json!("cart"), &json!("4m")));
        cells[1..4].iter().map(|cell| cell.as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn runs(name: &str) -> Value {
        json!({ "name": name, "ready": true, "started": true, "restartCount": 0, "state": { "running": {} } })
    }

    fn waits(name: &str, reason: &str) -> Value {
        json!({ "name": name, "ready": false, "restartCount": 0, "state": { "waiting": { "reason": reason } } })
    }

    fn ended(name: &str, code: i32, reason: &str) -> Value {
        json!({
            "name": name, "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code, "reason": reason } },
        })
    }

    #[test]
    fn the_status_of_a_pod_of_usual_containers() {
        let one = json!({ "containers": [{ "name": "app" }] });
        let two = json!({ "containers": [{ "name": "app" }, { "name": "proxy" }] });
        let status = |phase: &str, all: &[Value]| json!({ "phase": phase, "containerStatuses": all });
        assert_eq!(of(&one, &status("Pending", &[])), "0/1 Pending 0");
        assert_eq!(
            of(&one, &status("Pending", &[waits("app", "ContainerCreating")])),
            "0/1 ContainerCreating 0"
        );
        assert_eq!(of(&one, &status("Running", &[runs("app")])), "1/1 Running 0");
        assert_eq!(of(&one, &status("Pending", &[waits("app", "ErrImagePull")])), "0/1 ErrImagePull 0");
        assert_eq!(of(&one, &status("Succeeded", &[ended("app", 0, "Completed")])), "0/1 Completed 0");
        assert_eq!(of(&one, &status("Failed", &[ended("app", 1, "Error")])), "0/1 Error 0");
        assert_eq!(of(&one, &status("Failed", &[ended("app", 3, "")])), "0/1 ExitCode:3 0");
        let half = status("Running", &[runs("app"), ended("proxy", 0, "Completed")]);
        assert_eq!(of(&two, &half), "1/2 NotReady 0");
        assert_eq!(of(&one, &json!({ "phase": "Failed", "reason": "Evicted" })), "0/1 Evicted 0");
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let mut crashing = waits("app", "CrashLoopBackOff");
        crashing["restartCount"] = json!(2);
        let status = |one: &Value| json!({ "phase": "Running", "containerStatuses": [one] });
        let spec = json!({ "containers": [{ "name": "app" }] });
        assert_eq!(of(&spec, &status(&crashing)), "0/1 CrashLoopBackOff 2");
        crashing["lastState"] = json!({ "terminated": { "finishedAt": "2026-01-02T03:01:05Z" } });
        assert_eq!(of(&spec, &status(&crashing)), "0/1 CrashLoopBackOff 2 (3m ago)");
    }

    #[test]
    fn initialization_is_shown_until_it_is_over() {
        let spec = json!({ "initContainers": [{ "name": "a" }, { "name": "b" }], "containers": [{ "name": "app" }] });
        let status = |all: &[Value]| {
            json!({ "phase": "Pending", "initContainerStatuses": all,
                    "containerStatuses": [waits("app", "PodInitializing")] })
        };
        let (begins, works) = (waits("a", "PodInitializing"), runs("b"));
        assert_eq!(of(&spec, &status(&[begins, waits("b", "PodInitializing")])), "0/1 Init:0/2 0");
        assert_eq!(of(&spec, &status(&[ended("a", 0, "Completed"), works])), "0/1 Init:1/2 0");
        assert_eq!(of(&spec, &status(&[ended("a", 1, "Error")])), "0/1 Init:Error 0");
        assert_eq!(of(&spec, &status(&[ended("a", 2, "")])), "0/1 Init:ExitCode:2 0");
        assert_eq!(of(&spec, &status(&[waits("a", "CrashLoopBackOff")])), "0/1 Init:CrashLoopBackOff 0");
        let done = [ended("a", 0, "Completed"), ended("b", 0, "Completed")];
        assert_eq!(of(&spec, &status(&done)), "0/1 PodInitializing 0");
    }

    #[test]
    fn a_native_sidecar_counts_as_a_container() {
        let spec = json!({ "initContainers": [{ "name": "proxy", "restartPolicy": "Always" }],
                           "containers": [{ "name": "app" }] });
        let status = json!({ "phase": "Running", "initContainerStatuses": [runs("proxy")],
                             "containerStatuses": [runs("app")] });
        assert_eq!(of(&spec, &status), "2/2 Running 0");
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating_unless_it_is_over() {
        let of = |phase: &str| {
            let pod = json!({ "metadata": { "deletionTimestamp": "2026-01-02T03:04:00Z" },
                              "status": { "phase": phase } });
            cells(&pod, now())[2].clone()
        };
        assert_eq!(of("Running"), "Terminating");
        assert_eq!(of("Succeeded"), "Succeeded");
    }
}
