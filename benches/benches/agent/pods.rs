// SPDX-License-Identifier: Apache-2.0
//! Pods as clusters have them: most of what the API server sends is nothing that redirection depends on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use benches::pod::PodNamespace;
use protocol::agent::PodKey;
use serde_json::{Value, json};

use crate::node::{NODE, Node, bind};

/// Minimum size of a pod in JSON.
const SIZE: usize = 15 * 1000;
/// Namespace of the pods.
pub(crate) const NAMESPACE: &str = "shop";

/// Puts `count` running pods of the mesh on the node; how the plugin asks for each.
pub(crate) fn fill(node: &Node, count: usize) -> Result<Vec<PodKey>> {
    node.api.create_namespace(NAMESPACE, &[].into())?;
    (0..count).map(|number| put(node, realistic(&format!("cart-{number}"))?)).collect()
}

/// Creates a pod on the node; returns its key.
pub(crate) fn put(node: &Node, pod: Value) -> Result<PodKey> {
    let stored = node.api.upsert(pod)?;
    let text = |field: &str| {
        stored["metadata"][field].as_str().map(str::to_owned).context("an object without a name")
    };
    Ok(PodKey {
        namespace: text("namespace")?,
        name: text("name")?,
        uid: text("uid")?,
        container_id: "bench".into(),
        network: String::new(),
    })
}

/// Leaves on the node what a runtime leaves of a pod that is set up: its namespace, and what was answered for it.
pub(crate) fn place(node: &Node, key: &PodKey, namespace: &PodNamespace) -> Result<()> {
    let netns = format!("var/run/netns/cni-{}", key.name);
    let mounted = node.path("host").join(&netns);
    fs::write(&mounted, "")?;
    bind(Path::new(&namespace.path()), &mounted)?;
    let arguments = [
        ("IgnoreUnknown", "1"),
        ("K8S_POD_NAMESPACE", &*key.namespace),
        ("K8S_POD_NAME", &key.name),
        ("K8S_POD_UID", &key.uid),
    ];
    let entry = json!({"kind": "cniCacheV1", "containerId": key.name, "config": "e30=", "ifName": "eth0", "networkName": "primary",
        "netns": format!("/{netns}"), "cniArgs": arguments, "result": {"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.2/24"}]}});
    let results = node.path("host/var/lib/cni/results");
    Ok(fs::write(results.join(format!("primary-{}-eth0", key.name)), entry.to_string())?)
}

/// A pod of the mesh that runs on the node.
pub(crate) fn realistic(name: &str) -> Result<Value> {
    let env = |name: String| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}});
    let probe = json!({"failureThreshold": 3, "httpGet": {"path": "/healthz/ready", "port": 15021, "scheme": "HTTP"}, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 3});
    let container = |name: &str, variables: usize| {
        json!({"name": name, "image": format!("registry.example/{name}:1.2.3"), "imagePullPolicy": "IfNotPresent", "readinessProbe": probe, "livenessProbe": probe,
            "env": (0..variables).map(|number| env(format!("SETTING_NUMBER_{number}"))).collect::<Vec<_>>(),
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "10m", "memory": "40Mi"}},
            "securityContext": {"runAsUser": 1337, "runAsGroup": 1337, "readOnlyRootFilesystem": true},
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access", "readOnly": true}]})
    };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "cart", "service.istio.io/canonical-name": "cart"},
            "annotations": {"sidecar.istio.io/status": "{\"initContainers\":[\"istio-validation\"],\"containers\":[\"istio-proxy\"]}"}},
        "spec": {"nodeName": NODE, "initContainers": [container("istio-validation", 0)], "containers": [container("app", 20), container("istio-proxy", 30)]},
        "status": {"phase": "Running", "podIP": "10.9.0.2", "podIPs": [{"ip": "10.9.0.2"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    // The rest is what managers of fields leave.
    let mut fields = 0;
    while pod.to_string().len() < SIZE {
        let manager = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": format!("manager-{fields}"), "operation": "Update", "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:sidecar.istio.io/status": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}}, "f:image": {}}}}}});
        match pod["metadata"]["managedFields"].as_array_mut() {
            Some(all) => all.push(manager),
            None => pod["metadata"]["managedFields"] = json!([manager]),
        }
        fields += 1;
    }
    ensure!(pod.to_string().len() < SIZE + 1000, "a pod is {} bytes long", pod.to_string().len());
    Ok(pod)
}
