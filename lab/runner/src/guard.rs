// SPDX-License-Identifier: Apache-2.0
//! The objects of a policy agent, as Kyverno or Gatekeeper install theirs: a validating webhook that fails closed, for pods of all namespaces but
//! its own, and the pods that answer it, which are on the pods' network.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Identity;
use serde_json::{Value, json};

const NAME: &str = "guard";
const NAMESPACE: &str = "policy";
/// Where its pods are listed.
pub const PODS: &str = "/api/v1/namespaces/policy/pods?labelSelector=app%3Dguard";
/// Where events about them are.
pub const EVENTS: &str = "/api/v1/namespaces/policy/events";
/// Port that it listens on, behind its service.
const PORT: u16 = 9443;

/// Names in its certificate.
#[must_use]
pub fn names() -> Vec<String> {
    vec![format!("{NAME}.{NAMESPACE}.svc")]
}

/// Its namespace, service and pods.
#[must_use]
pub fn installed(identity: &Identity) -> Vec<Value> {
    let labels = json!({ "app": NAME });
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let container = json!({
        "name": NAME, "image": "workload", "command": ["workload", "injector"],
        "args": ["--image", "none", "--port", PORT.to_string()],
        "env": [variable("LAB_CERTIFICATE", &identity.certificate), variable("LAB_KEY", &identity.key)],
        "ports": [{ "containerPort": PORT, "protocol": "TCP" }],
    });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": { "selector": labels, "ports": [{ "port": 443, "targetPort": PORT, "protocol": "TCP" }] },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            },
        }),
    ]
}

/// Its webhook.
#[must_use]
pub fn webhook(ca_pem: &str) -> Value {
    let service = json!({ "name": NAME, "namespace": NAMESPACE, "path": "/validate", "port": 443 });
    let elsewhere = json!({ "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE, "kube-system"] });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": NAME },
        "webhooks": [{
            "name": format!("{NAME}.{NAMESPACE}.svc"),
            "clientConfig": { "service": service, "caBundle": STANDARD.encode(ca_pem) },
            "sideEffects": "None",
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
            "failurePolicy": "Fail",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": { "matchExpressions": [elsewhere] },
        }],
    })
}
