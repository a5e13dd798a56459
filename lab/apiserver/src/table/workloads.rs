// SPDX-License-Identifier: Apache-2.0
//! Cells of nodes, and of what has a template of pods.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::columns::{age as age_of, name, or_none};
use crate::selector::written;

/// `app=web,tier=front`, or `<none>`.
pub(super) fn labels(labels: &Value) -> Value {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",").into() }
}

/// A label selector as `kubectl get -l` takes it.
fn selector(selector: &Value) -> Value {
    or_none(&written(selector).into())
}

/// Names and images of the containers of a template, and its selector.
fn template(object: &Value) -> [Value; 3] {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array();
    let joined = |field: &str| -> Value {
        let texts = containers.into_iter().flatten().filter_map(|one| one[field].as_str());
        texts.collect::<Vec<_>>().join(",").into()
    };
    [joined("name"), joined("image"), selector(&object["spec"]["selector"])]
}

fn number(field: &Value) -> u64 {
    field.as_u64().unwrap_or(0)
}

/// Replicas that are wanted: one, unless the object says otherwise.
fn wanted(object: &Value) -> u64 {
    object["spec"]["replicas"].as_u64().unwrap_or(1)
}

fn cells(head: Vec<Value>, object: &Value, tail: usize) -> Vec<Value> {
    head.into_iter().chain(template(object).into_iter().take(tail)).collect()
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| Value::from(number(&object["status"][field]));
    let head = vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(&object["spec"]["template"]["spec"]["nodeSelector"]),
        age_of(object, now),
    ];
    cells(head, object, 3)
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| number(&object["status"][field]);
    let ready = format!("{}/{}", status("readyReplicas"), wanted(object));
    let head = vec![
        name(object),
        ready.into(),
        status("updatedReplicas").into(),
        status("availableReplicas").into(),
        age_of(object, now),
    ];
    cells(head, object, 3)
}

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| Value::from(number(&object["status"][field]));
    let head = vec![
        name(object),
        wanted(object).into(),
        status("replicas"),
        status("readyReplicas"),
        age_of(object, now),
    ];
    cells(head, object, 3)
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", number(&object["status"]["readyReplicas"]), wanted(object));
    cells(vec![name(object), ready.into(), age_of(object, now)], object, 2)
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let holds = |kind: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == kind && one["status"] == "True")
    };
    let is_deleted = !object["metadata"]["deletionTimestamp"].is_null();
    let state = match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if is_deleted => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let done = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_u64(), spec["parallelism"].as_u64().unwrap_or(1)) {
        (Some(all), _) => format!("{done}/{all}"),
        (None, 2..) => format!("{done}/1 of {}", spec["parallelism"]),
        (None, _) => format!("{done}/1"),
    };
    let time = |field: &str| status[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let took = time("startTime").map(|start| age::between(start, time("completionTime").unwrap_or(now)));
    let head = vec![
        name(object),
        state.into(),
        completions.into(),
        took.unwrap_or_default().into(),
        age_of(object, now),
    ];
    cells(head, object, 3)
}

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|one| one["type"] == "Ready").map(|one| one["status"] == "True");
    let mut state = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let mut all = status["addresses"].as_array().into_iter().flatten();
        or_none(all.find(|one| one["type"] == kind).map_or(&Value::Null, |one| &one["address"]))
    };
    let known = |field: &str| match info[field].as_str() {
        Some(text) if !text.is_empty() => Value::from(text),
        _ => "<unknown>".into(),
    };
    vec![
        name(object),
        state.into(),
        roles(object).into(),
        age_of(object, now),
        info["kubeletVersion"].as_str().unwrap_or_default().into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage"),
        known("kernelVersion"),
        known("containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        _ => None,
    };
    let roles: Vec<String> = labels.filter_map(role).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn row(cells: &[Value]) -> String {
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        cells.iter().map(text).collect::<Vec<_>>().join("|")
    }

    fn of(kind: &str, spec: &Value, status: &Value) -> Value {
        let mut object = json!({
            "kind": kind, "metadata": { "name": "x", "creationTimestamp": "2026-01-02T03:04:00Z" },
            "spec": { "selector": { "matchLabels": { "app": "x" } },
                      "template": { "spec": { "containers": [{ "name": "a", "image": "i" }, { "name": "b", "image": "j" }] } } },
            "status": status,
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    }

    #[test]
    fn replicas_that_are_ready_and_wanted() {
        let status =
            json!({ "replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1 });
        let object = of("Deployment", &json!({ "replicas": 3 }), &status);
        assert_eq!(row(&deployment(&object, now())), "x|2/3|3|1|5s|a,b|i,j|app=x");
        assert_eq!(row(&replica_set(&object, now())), "x|3|3|2|5s|a,b|i,j|app=x");
        assert_eq!(row(&stateful_set(&object, now())), "x|2/3|5s|a,b|i,j");
        let unset = of("Deployment", &json!({}), &json!({}));
        assert_eq!(row(&deployment(&unset, now())), "x|0/1|0|0|5s|a,b|i,j|app=x");
    }

    #[test]
    fn pods_of_a_daemon_set() {
        let status = json!({ "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 1 });
        assert_eq!(
            row(&daemon_set(&of("DaemonSet", &json!({}), &status), now())),
            "x|2|2|1|0|0|<none>|5s|a,b|i,j|app=x"
        );
    }

    #[test]
    fn a_job_counts_and_takes_its_time() {
        let begun = json!({ "startTime": "2026-01-02T03:04:01Z" });
        let running = of("Job", &json!({ "completions": 2, "selector": {} }), &begun);
        assert_eq!(row(&job(&running, now())), "x|Running|0/2|4s|5s|a,b|i,j|<none>");
        let status = json!({
            "startTime": "2026-01-02T03:04:01Z", "completionTime": "2026-01-02T03:04:03Z", "succeeded": 1,
            "conditions": [{ "type": "Complete", "status": "True" }],
        });
        assert_eq!(row(&job(&of("Job", &json!({}), &status), now())), "x|Complete|1/1|2s|5s|a,b|i,j|app=x");
    }

    #[test]
    fn a_node_is_ready_and_may_be_cordoned() {
        let ready = json!({
            "conditions": [{ "type": "Ready", "status": "True" }],
            "nodeInfo": { "kubeletVersion": "v1.34.4", "kernelVersion": "6.1" },
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
        });
        let mut object = of("Node", &json!({ "unschedulable": true }), &ready);
        object["metadata"]["labels"] = json!({ "node-role.kubernetes.io/worker": "" });
        let expected = "x|Ready,SchedulingDisabled|worker|5s|v1.34.4|10.0.0.1|<none>|<unknown>|6.1|<unknown>";
        assert_eq!(row(&node(&object, now())), expected);
        let silent = of("Node", &json!({}), &json!({}));
        assert_eq!(row(&node(&silent, now()))[..18], *"x|Unknown|<none>|5");
    }

    #[test]
    fn a_selector_reads_as_kubectl_takes_it() {
        let wanted = json!({
            "matchLabels": { "b": "1", "a": "2" },
            "matchExpressions": [{ "key": "c", "operator": "In", "values": ["x", "y"] }, { "key": "d", "operator": "DoesNotExist" }],
        });
        assert_eq!(selector(&wanted), "a=2,b=1,c in (x,y),!d");
    }
}
