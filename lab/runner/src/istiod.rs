// SPDX-License-Identifier: Apache-2.0
//! The objects that make a cluster inject pods: istiod, its service, and its webhook with the selectors of upstream's chart
//! (`istio-discovery/templates/mutatingwebhook.yaml`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Identity, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

pub const NAME: &str = "istiod";
/// Image of the containers that it injects. A cluster of others has it under another name, which it is told in the place of this argument.
const PROXY: &str = "proxyv2";
/// Port that it listens on, behind its service.
const PORT: u16 = 15017;
const INJECT: &str = "sidecar.istio.io/inject";
const REVISION: &str = "istio.io/rev";

/// Fate of pods while it does not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

impl fmt::Display for FailurePolicy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

/// Names in its certificate.
#[must_use]
pub fn names() -> Vec<String> {
    vec![format!("{NAME}.{SYSTEM_NAMESPACE}.svc"), format!("{NAME}.{SYSTEM_NAMESPACE}")]
}

/// Its service and its webhooks.
#[must_use]
pub fn reached(ca_pem: &str, policy: FailurePolicy) -> Vec<Value> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME, "namespace": SYSTEM_NAMESPACE },
        "spec": {
            "selector": { "app": NAME },
            "ports": [{ "name": "https-webhook", "port": 443, "targetPort": PORT, "protocol": "TCP" }],
        },
    });
    let requirement = |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
    let is_absent = |key: &str| json!({ "key": key, "operator": "DoesNotExist" });
    let of_namespaces = [requirement("istio-injection", "In", &["enabled"])];
    let not_declined = [requirement(INJECT, "NotIn", &["false"])];
    let elsewhere = [is_absent("istio-injection"), is_absent(REVISION)];
    let wished = [requirement(INJECT, "In", &["true"]), is_absent(REVISION)];
    let webhooks = [
        webhook("namespace", ca_pem, policy, &of_namespaces, &not_declined),
        webhook("object", ca_pem, policy, &elsewhere, &wished),
    ];
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": { "name": "istio-sidecar-injector" },
        "webhooks": webhooks,
    });
    vec![service, configuration]
}

fn webhook(of: &str, ca_pem: &str, policy: FailurePolicy, namespaces: &[Value], objects: &[Value]) -> Value {
    let service = json!({ "name": NAME, "namespace": SYSTEM_NAMESPACE, "path": "/inject", "port": 443 });
    let pods = json!({
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
    });
    json!({
        "name": format!("{of}.sidecar-injector.istio.io"),
        "clientConfig": { "service": service, "caBundle": STANDARD.encode(ca_pem) },
        "sideEffects": "None",
        "rules": [pods],
        "failurePolicy": policy.to_string(),
        "reinvocationPolicy": "Never",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": { "matchExpressions": namespaces },
        "objectSelector": { "matchExpressions": objects },
    })
}

/// One pod of it; `arguments` say how it injects.
#[must_use]
pub fn pod(identity: &Identity, arguments: &[&str]) -> Value {
    let mut pod = template(identity, arguments);
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    pod["metadata"]["name"] = json!(NAME);
    pod["metadata"]["namespace"] = json!(SYSTEM_NAMESPACE);
    pod
}

#[must_use]
pub fn deployment(identity: &Identity) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": SYSTEM_NAMESPACE },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": NAME } },
            "template": template(identity, &[]),
        },
    })
}

fn template(identity: &Identity, arguments: &[&str]) -> Value {
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let env = [variable("LAB_CERTIFICATE", &identity.certificate), variable("LAB_KEY", &identity.key)];
    let arguments = [&["--image", PROXY], arguments].concat();
    let container = json!({
        "name": "discovery", "image": "workload", "command": ["workload", "injector"], "args": arguments,
        "env": env,
        "ports": [{ "containerPort": PORT, "protocol": "TCP" }],
        "securityContext": { "runAsUser": 1337, "runAsGroup": 1337, "runAsNonRoot": true },
    });
    let labels = json!({ "app": NAME, INJECT: "false" });
    json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } })
}
