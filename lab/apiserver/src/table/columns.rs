// SPDX-License-Identifier: Apache-2.0
//! Columns of each kind, and who fills them.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, pod, workloads};
use crate::kinds::Kind;

/// A column of a table.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) format: &'static str,
    /// 1: only `-o wide` shows it.
    pub(super) priority: u8,
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

const fn number(name: &'static str) -> Column {
    Column { kind: "integer", ..text(name) }
}

const fn wide(name: &'static str) -> Column {
    Column { priority: 1, ..text(name) }
}

const NAME: Column = Column { format: "name", ..text("Name") };
const AGE: Column = text("Age");

/// Cells of an object.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

pub(super) struct Printer {
    pub(super) columns: &'static [Column],
    pub(super) cells: Cells,
}

/// Printer of a kind. Those of the groups that are served have different plurals.
pub(super) fn printer(kind: &Kind) -> Printer {
    let (columns, cells): (&'static [Column], Cells) = match kind.plural {
        "pods" => (&POD, pod::cells),
        "nodes" => (&NODE, workloads::node),
        "namespaces" => (&NAMESPACE, namespace),
        "daemonsets" => (&DAEMON_SET, workloads::daemon_set),
        "deployments" => (&DEPLOYMENT, workloads::deployment),
        "replicasets" => (&REPLICA_SET, workloads::replica_set),
        "statefulsets" => (&STATEFUL_SET, workloads::stateful_set),
        "jobs" => (&JOB, workloads::job),
        "events" => (&EVENT, event),
        "serviceaccounts" => (&SERVICE_ACCOUNT, service_account),
        "configmaps" => (&CONFIG_MAP, config_map),
        "secrets" => (&SECRET, secret),
        "services" => (&SERVICE, service),
        "leases" => (&LEASE, lease),
        "roles" | "clusterroles" | "customresourcedefinitions" => (&CREATED, created),
        "rolebindings" | "clusterrolebindings" => (&BINDING, binding),
        _ => (&OTHER, other),
    };
    Printer { columns, cells }
}

static POD: [Column; 9] = [
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];
static NODE: [Column; 10] = [
    NAME,
    text("Status"),
    text("Roles"),
    AGE,
    text("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];
static NAMESPACE: [Column; 3] = [NAME, text("Status"), AGE];
static DAEMON_SET: [Column; 11] = [
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    number("Up-to-date"),
    number("Available"),
    text("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
static DEPLOYMENT: [Column; 8] = [
    NAME,
    text("Ready"),
    number("Up-to-date"),
    number("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
static REPLICA_SET: [Column; 8] = [
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
static STATEFUL_SET: [Column; 5] = [NAME, text("Ready"), AGE, wide("Containers"), wide("Images")];
static JOB: [Column; 8] = [
    NAME,
    text("Status"),
    text("Completions"),
    text("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];
static EVENT: [Column; 10] = [
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    wide("Count"),
    Column { format: "name", ..wide("Name") },
];
static SERVICE_ACCOUNT: [Column; 3] = [NAME, text("Secrets"), AGE];
static CONFIG_MAP: [Column; 3] = [NAME, text("Data"), AGE];
static SECRET: [Column; 4] = [NAME, text("Type"), text("Data"), AGE];
static SERVICE: [Column; 7] =
    [NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")];
static LEASE: [Column; 3] = [NAME, text("Holder"), AGE];
static CREATED: [Column; 2] = [NAME, text("Created At")];
static BINDING: [Column; 3] = [NAME, text("Role"), AGE];
static OTHER: [Column; 2] = [NAME, AGE];

pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    age::since(&object["metadata"]["creationTimestamp"], now).into()
}

/// A text; `<none>` if there is none.
pub(super) fn or_none(value: &Value) -> Value {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>").into()
}

fn count(field: &Value) -> usize {
    field.as_object().map_or_else(|| field.as_array().map_or(0, Vec::len), serde_json::Map::len)
}

fn other(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn created(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), object["metadata"]["creationTimestamp"].clone()]
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), object["status"]["phase"].clone(), age(object, now)]
}

fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["secrets"]).into(), age(object, now)]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let data = count(&object["data"]) + count(&object["binaryData"]);
    vec![name(object), data.into(), age(object, now)]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = object["type"].as_str().unwrap_or("Opaque");
    vec![name(object), kind.into(), count(&object["data"]).into(), age(object, now)]
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    let holder = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
    vec![name(object), holder.into(), age(object, now)]
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = |field: &str| object["roleRef"][field].as_str().unwrap_or_default().to_owned();
    vec![name(object), format!("{}/{}", role("kind"), role("name")).into(), age(object, now)]
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    let listed = |list: &Value, field: Option<&str>| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        let text = |one: &Value| field.map_or(one, |field| &one[field]).as_str().map(str::to_owned);
        list.filter_map(text).collect()
    };
    let mut external = listed(&spec["externalIPs"], None);
    external.extend(listed(&object["status"]["loadBalancer"]["ingress"], Some("ip")));
    let external = match (kind, external.as_slice()) {
        ("ExternalName", _) => or_none(&spec["externalName"]),
        ("LoadBalancer", []) => "<pending>".into(),
        (_, []) => "<none>".into(),
        (_, some) => some.join(",").into(),
    };
    let port = |port: &Value| {
        let node = port["nodePort"].as_u64().filter(|port| *port != 0);
        let node = node.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{node}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP"))
    };
    let ports: Vec<String> = spec["ports"].as_array().into_iter().flatten().map(port).collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let selector = workloads::labels(&spec["selector"]);
    let address = or_none(&spec["clusterIP"]);
    vec![name(object), kind.into(), address, external, ports.into(), age(object, now), selector]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let first_time =
        if object["firstTimestamp"].is_null() { &object["eventTime"] } else { &object["firstTimestamp"] };
    let series = &object["series"];
    let last_time = [&series["lastObservedTime"], &object["lastTimestamp"], first_time];
    let last_time = last_time.into_iter().find(|time| !time.is_null()).unwrap_or(first_time);
    let seen = if series.is_null() { &object["count"] } else { &series["count"] };
    let about = &object["involvedObject"];
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    let target = match about["name"].as_str() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    };
    let source = [&object["source"]["component"], &object["source"]["host"]];
    let source: Vec<&str> = source.into_iter().filter_map(Value::as_str).collect();
    vec![
        age::since(last_time, now).into(),
        object["type"].clone(),
        object["reason"].clone(),
        target.into(),
        about["fieldPath"].as_str().unwrap_or_default().into(),
        source.join(", ").into(),
        object["message"].as_str().unwrap_or_default().trim().into(),
        age::since(first_time, now).into(),
        json!(seen.as_u64().unwrap_or(1).max(1)),
        name(object),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    #[test]
    fn an_event_says_when_it_was_last_seen_and_of_whom() {
        let seen = event(
            &json!({
                "metadata": { "name": "cart.1" }, "type": "Warning", "reason": "BackOff", "message": " x\n",
                "involvedObject": { "kind": "Pod", "name": "cart", "fieldPath": "spec.containers{app}" },
                "source": { "component": "kubelet", "host": "node-1" }, "count": 3,
                "firstTimestamp": "2026-01-02T03:02:05Z", "lastTimestamp": "2026-01-02T03:04:00Z",
            }),
            now(),
        );
        let expected = json!([
            "5s",
            "Warning",
            "BackOff",
            "pod/cart",
            "spec.containers{app}",
            "kubelet, node-1",
            "x",
            "2m",
            3,
            "cart.1"
        ]);
        assert_eq!(Value::from(seen), expected);
    }

    #[test]
    fn a_service_shows_its_ports() {
        let port = |port: u16, node: u16| json!({ "port": port, "nodePort": node, "protocol": "TCP" });
        let cells = service(
            &json!({
                "metadata": { "name": "web", "creationTimestamp": "2026-01-02T03:04:05Z" },
                "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [port(80, 0), port(443, 30443)],
                          "selector": { "app": "web" } },
            }),
            now(),
        );
        let expected =
            json!(["web", "LoadBalancer", "10.96.0.9", "<pending>", "80/TCP,443:30443/TCP", "0s", "app=web"]);
        assert_eq!(Value::from(cells), expected);
    }
}
