// SPDX-License-Identifier: Apache-2.0
//! Admission plugin `ServiceAccount`: the projected volume `kube-api-access-…`, mounted in each container. Pure.

use serde_json::{Value, json};

/// `DefaultAPITokenMountPath`.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// ConfigMap of each namespace with the authorities' certificates.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// Seconds: an hour, and a few by which nobody takes it for a token that should last longer (`WarnOnlyBoundTokenExpirationSeconds`).
const LIFE: u64 = 3607;

/// Adds the volume to a pod, unless the pod, or else its account, does without.
pub(crate) fn mount_token(spec: &mut Value, account: &Value, suffix: &str) {
    const FIELD: &str = "automountServiceAccountToken";
    if !spec[FIELD].as_bool().or_else(|| account[FIELD].as_bool()).unwrap_or(true) {
        return;
    }
    let name = format!("kube-api-access-{suffix}");
    let mount = json!({ "name": name, "mountPath": PLACE, "readOnly": true });
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().all(|one| one["mountPath"] != PLACE) {
                container["volumeMounts"] = [mounts, vec![mount.clone()]].concat().into();
                is_mounted = true;
            }
        }
    }
    if is_mounted {
        let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        spec["volumes"] = [volumes, vec![volume(&name)]].concat().into();
    }
}

/// The ConfigMap of a namespace with these authorities (PEM).
pub(crate) fn root_ca(namespace: &str, pem: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": ROOT_CA, "namespace": namespace },
        "data": { "ca.crt": pem },
    })
}

fn volume(name: &str) -> Value {
    let namespace = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
    let sources = json!([
        { "serviceAccountToken": { "expirationSeconds": LIFE, "path": "token" } },
        { "configMap": { "name": ROOT_CA, "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
        { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": namespace }] } },
    ]);
    json!({ "name": name, "projected": { "defaultMode": 0o644, "sources": sources } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        let taken = json!([{ "name": "own", "mountPath": PLACE }]);
        json!({
            "initContainers": [{ "name": "init" }],
            "containers": [{ "name": "app" }, { "name": "other", "volumeMounts": taken }],
        })
    }

    #[test]
    fn each_container_without_one_gets_the_token() {
        let mut spec = pod();
        mount_token(&mut spec, &json!({}), "x");
        assert_eq!(spec["volumes"][0]["name"], "kube-api-access-x");
        for container in [&spec["initContainers"][0], &spec["containers"][0]] {
            assert_eq!(container["volumeMounts"][0]["name"], "kube-api-access-x");
        }
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_pod_or_else_its_account_may_do_without() {
        let without = json!({ "automountServiceAccountToken": false });
        let with = json!({ "automountServiceAccountToken": true });
        let is_mounted = |pods: &Value, account: &Value| {
            let mut spec = pod();
            spec["automountServiceAccountToken"] = pods["automountServiceAccountToken"].clone();
            mount_token(&mut spec, account, "x");
            spec["volumes"].is_array()
        };
        assert!(!is_mounted(&without, &with));
        assert!(!is_mounted(&json!({}), &without));
        assert!(is_mounted(&with, &without));
        assert!(is_mounted(&json!({}), &json!({})));
    }
}
