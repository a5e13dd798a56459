// SPDX-License-Identifier: Apache-2.0
//! Optional objects.

use serde_json::{Value, json};

use super::make::{Maker, NETWORK, NETWORK_POLICY, QUOTA};
use crate::values::Provider;

/// GKE admits critical pods outside of kube-system only where a quota names their class.
pub(super) fn quota(make: &Maker<'_>) -> Option<Value> {
    let quotas = &make.values.resource_quotas;
    let class = json!({ "scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"] });
    let spec = json!({
        "hard": { "pods": quotas.pods.to_string() },
        "scopeSelector": { "matchExpressions": [class] },
    });
    quotas.enabled.then(|| make.local(QUOTA, "istio-cni-resource-quota", json!({ "spec": spec })))
}

/// Metrics and the kubelet's probe come in; the API server has no address that could be named here.
pub(super) fn network_policy(make: &Maker<'_>, name: &str, pods: &str) -> Option<Value> {
    let port = |port: u16| json!({ "protocol": "TCP", "port": port });
    let spec = json!({
        "podSelector": { "matchLabels": { "k8s-app": pods } },
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "ports": [port(15014), port(8000)] }],
        "egress": [{}],
    });
    let enabled = make.values.global.network_policy.enabled;
    enabled.then(|| make.local(NETWORK_POLICY, name, json!({ "spec": spec })))
}

/// Without a spec Multus looks on the node for a configuration that is named so. Pods of every namespace find it in `default`.
pub(super) fn network(make: &Maker<'_>) -> Option<Value> {
    let is_multus = make.values.provider == Provider::Multus;
    is_multus.then(|| make.within("default", NETWORK, "istio-cni", Value::Null))
}
