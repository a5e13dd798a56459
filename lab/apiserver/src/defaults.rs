// SPDX-License-Identifier: Apache-2.0
//! Defaults that the real server writes into objects, as far as nodes, controllers and clients read them: pure. From `pkg/apis/*/v1/defaults.go` of
//! Kubernetes 1.34.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::workloads;

/// Rights of a volume's files, 0644.
const MODE: u32 = 0o644;
const RBAC: &str = "rbac.authorization.k8s.io";

/// Fills in the defaults of an object of this kind and name. Of metadata, what is empty is not kept.
pub(crate) fn fill_in(kind: &str, name: &str, object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let lists = ["labels", "annotations", "finalizers", "ownerReferences"];
        metadata.retain(|field, value| {
            let empty =
                value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
            !(empty && lists.contains(&field.as_str()))
        });
    }
    workloads::fill_in(kind, object);
    match kind {
        // Expressions of policies count on it.
        "Node" if object["spec"].is_null() => object["spec"] = json!({}),
        "Pod" if object["spec"].is_object() => {
            set(&mut object["spec"], "serviceAccountName", json!("default"));
            pod(&mut object["spec"]);
        }
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => workload(kind, object),
        "Secret" => secret(object),
        "Service" => service(&mut object["spec"]),
        "Namespace" => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name);
            set(&mut object["spec"], "finalizers", json!(["kubernetes"]));
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            for subject in
                items(&mut object["subjects"]).filter(|subject| subject["kind"] != "ServiceAccount")
            {
                set(subject, "apiGroup", json!(RBAC));
            }
        }
        "ValidatingAdmissionPolicy" => {
            set(&mut object["spec"], "failurePolicy", json!("Fail"));
            matching(&mut object["spec"]["matchConstraints"], "resourceRules");
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            items(&mut object["webhooks"]).for_each(|hook| webhook(kind, hook));
        }
        _ => {}
    }
}

fn set(object: &mut Value, field: &str, value: Value) {
    if object.is_null() || object.is_object() && object[field].is_null() {
        object[field] = value;
    }
}

fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

/// Defaults of a pod's spec, or of a template's.
fn pod(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    let on_host = fields.get("hostNetwork") == Some(&json!(true));
    for (field, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("enableServiceLinks", json!(true)),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        set(spec, field, value);
    }
    for list in ["containers", "initContainers"] {
        items(&mut spec[list]).for_each(|one| container(one, on_host));
        if spec[list].is_null() {
            spec.as_object_mut().map(|fields| fields.remove(list));
        }
    }
    volumes(spec);
}

fn container(one: &mut Value, on_host: bool) {
    let image = one["image"].as_str().unwrap_or_default();
    let latest = match image.rsplit('/').next().unwrap_or_default() {
        name if name.contains('@') => false,
        name => name.split_once(':').is_none_or(|(_, tag)| tag == "latest"),
    };
    for (field, value) in [
        ("imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" })),
        ("resources", json!({})),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
    ] {
        set(one, field, value);
    }
    for port in one.get_mut("ports").into_iter().flat_map(items) {
        set(port, "protocol", json!("TCP"));
        if on_host {
            let number = port["containerPort"].clone();
            set(port, "hostPort", number);
        }
    }
    for variable in one.get_mut("env").into_iter().flat_map(items) {
        reference(variable.get_mut("valueFrom"));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = one.get_mut(probe) else { continue };
        for (field, value) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            set(probe, field, json!(value));
        }
        if let Some(get) = probe.get_mut("httpGet") {
            set(get, "path", json!("/"));
            set(get, "scheme", json!("HTTP"));
        }
    }
}

fn reference(from: Option<&mut Value>) {
    if let Some(field) = from.and_then(|from| from.get_mut("fieldRef")) {
        set(field, "apiVersion", json!("v1"));
    }
}

fn volumes(spec: &mut Value) {
    for volume in spec.get_mut("volumes").into_iter().flat_map(items) {
        if let Some(path) = volume.get_mut("hostPath") {
            set(path, "type", json!(""));
        }
        for source in ["configMap", "secret", "downwardAPI", "projected"] {
            let Some(source) = volume.get_mut(source) else { continue };
            set(source, "defaultMode", json!(MODE));
            for item in source.get_mut("items").into_iter().flat_map(items) {
                reference(Some(item));
            }
            for inner in source.get_mut("sources").into_iter().flat_map(items) {
                if let Some(token) = inner.get_mut("serviceAccountToken") {
                    set(token, "expirationSeconds", json!(3600));
                }
                for item in inner
                    .get_mut("downwardAPI")
                    .and_then(|one| one.get_mut("items"))
                    .into_iter()
                    .flat_map(items)
                {
                    reference(Some(item));
                }
            }
        }
    }
}

fn workload(kind: &str, object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    let rolling = |value: Value| json!({"type": "RollingUpdate", "rollingUpdate": value});
    match kind {
        "DaemonSet" => {
            let update = rolling(json!({"maxSurge": 0, "maxUnavailable": 1}));
            strategy(object, "updateStrategy", &update);
            set(&mut object["spec"], "revisionHistoryLimit", json!(10));
        }
        "Deployment" => {
            let update = rolling(json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
            strategy(object, "strategy", &update);
            set(&mut object["spec"], "revisionHistoryLimit", json!(10));
            set(&mut object["spec"], "progressDeadlineSeconds", json!(600));
        }
        _ => {}
    }
    let spec = &mut object["spec"]["template"]["spec"];
    if kind == "Job" && spec["restartPolicy"].is_null() {
        // It has none by default, and is refused.
        return;
    }
    pod(spec);
}

/// A strategy as it is, or rolling, with what it leaves open.
fn strategy(object: &mut Value, field: &str, update: &Value) {
    let own = &mut object["spec"][field];
    set(own, "type", update["type"].clone());
    if own["type"] == update["type"] {
        let Some(defaults) = update["rollingUpdate"].as_object() else { return };
        for (name, value) in defaults {
            set(&mut own["rollingUpdate"], name, value.clone());
        }
    }
}

fn secret(object: &mut Value) {
    set(object, "type", json!("Opaque"));
    let Some(texts) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    for (name, text) in texts.as_object().into_iter().flatten() {
        object["data"][name] = json!(STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

fn service(spec: &mut Value) {
    let Some(fields) = spec.as_object() else { return };
    let address = fields.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (field, value) in [
        ("type", json!("ClusterIP")),
        ("sessionAffinity", json!("None")),
        ("internalTrafficPolicy", json!("Cluster")),
        ("ipFamilyPolicy", json!("SingleStack")),
        ("ipFamilies", json!([if address.contains(':') { "IPv6" } else { "IPv4" }])),
    ] {
        set(spec, field, value);
    }
    if !address.is_empty() {
        set(spec, "clusterIPs", json!([address]));
    }
    for port in spec.get_mut("ports").into_iter().flat_map(items) {
        set(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        set(port, "targetPort", number);
    }
}

fn matching(constraints: &mut Value, rules: &str) {
    if !constraints.is_object() {
        return;
    }
    set(constraints, "matchPolicy", json!("Equivalent"));
    for selector in ["namespaceSelector", "objectSelector"] {
        set(constraints, selector, Value::Object(Map::new()));
    }
    for rule in constraints.get_mut(rules).into_iter().flat_map(items) {
        set(rule, "scope", json!("*"));
    }
}

fn webhook(kind: &str, hook: &mut Value) {
    matching(hook, "rules");
    set(hook, "failurePolicy", json!("Fail"));
    set(hook, "timeoutSeconds", json!(10));
    if kind == "MutatingWebhookConfiguration" {
        set(hook, "reinvocationPolicy", json!("Never"));
    }
    if let Some(service) = hook["clientConfig"].get_mut("service") {
        set(service, "port", json!(443));
    }
}
