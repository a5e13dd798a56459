// SPDX-License-Identifier: Apache-2.0
//! The objects that deploy the agent, as the chart renders them.

use std::collections::BTreeMap;

use apiserver::{Grant, Verb};
use kubelet::tier::{SERVICE_ACCOUNT, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

use super::AgentPlan;

/// The DaemonSet.
pub const DAEMONSET: &str = "istio-cni-node";
/// The ConfigMap that the agent's settings are in.
pub const CONFIG_MAP: &str = "istio-cni-config";
/// The agent's container.
pub const CONTAINER: &str = "install-cni";

/// What the ConfigMap says where nobody said otherwise.
const SETTINGS: [(&str, &str); 11] = [
    ("AMBIENT_ENABLED", "false"),
    ("CHAINED_CNI_PLUGIN", "true"),
    ("EXCLUDE_NAMESPACES", "kube-system"),
    ("ISTIO_OWNED_CNI_CONFIG", "false"),
    ("NATIVE_NFTABLES", "false"),
    ("REPAIR_BROKEN_POD_LABEL_KEY", "cni.istio.io/uninitialized"),
    ("REPAIR_BROKEN_POD_LABEL_VALUE", "true"),
    ("REPAIR_DELETE_PODS", "false"),
    ("REPAIR_ENABLED", "true"),
    ("REPAIR_LABEL_PODS", "false"),
    ("REPAIR_REPAIR_PODS", "true"),
];

/// Volumes: name, where the agent sees it, where it is on the node, how it is mounted.
const VOLUMES: [(&str, &str, &str, Mounted); 6] = [
    ("cni-bin-dir", "/host/opt/cni/bin", "/opt/cni/bin", Mounted::Plain),
    ("cni-net-dir", "/host/etc/cni/net.d", "/etc/cni/net.d", Mounted::Plain),
    ("cni-socket-dir", "/var/run/istio-cni", "/var/run/istio-cni", Mounted::Plain),
    ("cni-host-procfs", "/host/proc", "/proc", Mounted::ReadOnly),
    ("cni-netns-dir", "/host/var/run/netns", "/var/run/netns", Mounted::HostToContainer),
    ("cni-cache-dir", "/host/var/lib/cni", "/var/lib/cni", Mounted::ReadOnly),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mounted {
    Plain,
    ReadOnly,
    HostToContainer,
}

/// The ConfigMap, with what a feature sets.
#[must_use]
pub fn config_map(settings: &BTreeMap<String, String>) -> Value {
    let mut data: BTreeMap<String, String> =
        SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    data.extend(settings.clone());
    let metadata = json!({ "name": CONFIG_MAP, "namespace": SYSTEM_NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
}

/// The DaemonSet, as a feature wants the agent.
#[must_use]
pub fn daemon_set(agent: &AgentPlan) -> Value {
    let labels = json!({ "k8s-app": DAEMONSET, "sidecar.istio.io/inject": "false" });
    let volumes: Vec<_> = VOLUMES
        .iter()
        .map(|(name, _, path, _)| {
            let path = agent.net_dir.as_deref().filter(|_| *name == "cni-net-dir").unwrap_or(path);
            let kind = if path == "/proc" { "Directory" } else { "DirectoryOrCreate" };
            json!({ "name": name, "hostPath": { "path": path, "type": kind } })
        })
        .collect();
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": DAEMONSET, "namespace": SYSTEM_NAMESPACE, "labels": labels },
        "spec": {
            "selector": { "matchLabels": { "k8s-app": DAEMONSET } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": labels, "annotations": { "sidecar.istio.io/inject": "false" } },
                "spec": {
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": SERVICE_ACCOUNT,
                    "terminationGracePeriodSeconds": 30,
                    "hostNetwork": agent.host_network,
                    "tolerations": [
                        { "effect": "NoSchedule", "operator": "Exists" },
                        { "key": "CriticalAddonsOnly", "operator": "Exists" },
                        { "effect": "NoExecute", "operator": "Exists" },
                    ],
                    "containers": [container(agent)],
                    "volumes": volumes,
                },
            },
        },
    })
}

/// A pod that runs `install-cni --purge` with the agent's mounts, once.
#[must_use]
pub fn purge(name: &str) -> Value {
    let set = daemon_set(&AgentPlan::default());
    let mut spec = set["spec"]["template"]["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    let container = &mut spec["containers"][0];
    container["args"] = json!(["--purge"]);
    for of_agent in ["envFrom", "readinessProbe"] {
        container[of_agent] = Value::Null;
    }
    let metadata = json!({ "name": name, "namespace": SYSTEM_NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

fn container(agent: &AgentPlan) -> Value {
    let mounts: Vec<_> = VOLUMES
        .iter()
        .map(|(name, at, _, how)| {
            let mut mount = json!({ "name": name, "mountPath": at, "readOnly": *how == Mounted::ReadOnly });
            if *how == Mounted::HostToContainer {
                mount["mountPropagation"] = json!("HostToContainer");
            }
            mount
        })
        .collect();
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let fixed = [
        field("REPAIR_NODE_NAME", "spec.nodeName"),
        field("NODE_NAME", "spec.nodeName"),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        json!({ "name": "REPAIR_RUN_AS_DAEMON", "value": "true" }),
        json!({ "name": "REPAIR_SIDECAR_ANNOTATION", "value": "sidecar.istio.io/status" }),
    ];
    let more = agent.env.iter().map(|(name, value)| json!({ "name": name, "value": value }));
    json!({
        "name": CONTAINER,
        "image": CONTAINER,
        "command": [CONTAINER],
        "args": if agent.no_flags { json!([]) } else { json!(["--log_output_level=info"]) },
        "ports": [{ "name": "metrics", "containerPort": 15014 }],
        "readinessProbe": { "httpGet": { "path": "/readyz", "port": 8000 } },
        "securityContext": {
            "privileged": false, "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": false,
            "capabilities": {
                "drop": ["ALL"],
                "add": ["NET_ADMIN", "NET_RAW", "SYS_PTRACE", "SYS_ADMIN", "DAC_OVERRIDE"],
            },
        },
        "envFrom": [{ "configMapRef": { "name": CONFIG_MAP } }],
        "env": fixed.into_iter().chain(more).collect::<Vec<_>>(),
        "volumeMounts": mounts,
    })
}

/// What the agent's account may do, for the repair policy that counts.
#[must_use]
pub fn grants(settings: &BTreeMap<String, String>) -> Vec<Grant> {
    const READ: [Verb; 3] = [Verb::Get, Verb::List, Verb::Watch];
    let on = |key: &str| settings.get(key).is_some_and(|value| value == "true");
    let read = |resource: &'static str| READ.map(|verb| Grant::new(verb, resource));
    let mut grants: Vec<_> =
        ["pods", "nodes", "namespaces", "configmaps"].into_iter().flat_map(read).collect();
    grants.push(Grant::new(Verb::Get, "daemonsets.apps"));
    grants.extend([Grant::new(Verb::Create, "events"), Grant::new(Verb::Patch, "events")]);
    let repairs = settings.get("REPAIR_REPAIR_PODS").is_none_or(|value| value == "true");
    let fallback = settings.get("MILLRACE_REPAIR_FALLBACK").map_or("none", String::as_str);
    let (deletes, labels) = match repairs {
        true => (fallback == "delete", fallback == "label"),
        false => (on("REPAIR_DELETE_PODS"), on("REPAIR_LABEL_PODS")),
    };
    if deletes {
        grants.push(Grant::new(Verb::Delete, "pods"));
    } else if labels {
        grants.extend([Verb::Patch, Verb::Update].map(|verb| Grant::new(verb, "pods/status")));
    }
    grants
}

/// Whether a grant is about changing pods. A patch is all that a label takes; upstream's chart grants the update as well.
#[must_use]
pub fn changes_pods(grant: &Grant) -> bool {
    let changes = ["delete", "patch"].iter().any(|verb| grant.rule.verbs.iter().any(|one| one == verb));
    let mut resources = grant.rule.resources.iter().flatten();
    changes && resources.any(|one| one.split('/').next() == Some("pods"))
}
