// SPDX-License-Identifier: Apache-2.0
//! Accounts, and what they may do: the verbs that the chosen mode needs and no others.

use serde_json::{Value, json};

use super::make::{ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Maker, ROLE, ROLE_BINDING, put_unless_empty};
use crate::values::{Fallback, Repair, TaintMode};

/// Name of the agent's account, its roles, and its settings' prefix.
pub(super) const AGENT: &str = "istio-cni";
/// Name of the taint controller's account and objects.
pub(super) const TAINT: &str = "istio-cni-taint";

/// Action on a broken pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Delete,
    Label,
}

impl Right {
    /// The right that repair needs; none where rules are written from inside the node. The first policy that is on counts.
    pub(super) fn of(repair: &Repair) -> Option<Self> {
        match repair {
            Repair { enabled: false, .. } => None,
            Repair { repair_pods: true, fallback, .. } => match fallback {
                Fallback::None => None,
                Fallback::Delete => Some(Self::Delete),
                Fallback::Label => Some(Self::Label),
            },
            Repair { delete_pods: true, .. } => Some(Self::Delete),
            Repair { label_pods: true, .. } => Some(Self::Label),
            Repair { .. } => None,
        }
    }

    /// True if repair evicts pods that run unredirected.
    fn evicts(repair: &Repair) -> bool {
        repair.unredirected && Self::of(repair) == Some(Self::Delete)
    }

    /// Resource and verb.
    fn rule(self) -> (&'static str, &'static str) {
        match self {
            Self::Delete => ("pods", "delete"),
            Self::Label => ("pods/status", "patch"),
        }
    }
}

pub(super) fn account(make: &Maker<'_>, name: &str) -> Value {
    let mut account = make.local(ACCOUNT, name, Value::Null);
    let secrets: Vec<_> =
        make.values.global.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    put_unless_empty(&mut account, "imagePullSecrets", secrets.into());
    account
}

/// Roles of the agent, cluster-wide and in its namespace.
pub(super) fn agent(make: &Maker<'_>) -> Vec<Value> {
    let of_nodes: &[_] = match make.values.taint.mode {
        TaintMode::Node => &["get", "list", "watch", "patch"],
        TaintMode::Off | TaintMode::Readiness | TaintMode::Untaint => &["get"],
    };
    let mut rules = vec![
        rule("", "pods", &["get", "list", "watch"]),
        rule("", "nodes", of_nodes),
        rule("", "events", &["create", "patch"]),
    ];
    if make.values.ambient.enabled {
        rules.push(rule("", "namespaces", &["list", "watch"]));
    }
    if make.values.platform == "openshift" {
        rules.push(named("security.openshift.io", "securitycontextconstraints", "privileged", &["use"]));
    }
    let mut local = vec![
        named("", "configmaps", "istio-cni-config", &["list", "watch"]),
        named("apps", "daemonsets", "istio-cni-node", &["get", "list", "watch"]),
        named("", "namespaces", make.namespace(), &["get"]),
    ];
    let mut objects = Vec::from(of_cluster(make, Names::same(AGENT), &rules));
    if let Some(right) = Right::of(&make.values.repair) {
        let (resource, verb) = right.rule();
        let names =
            Names { role: "istio-cni-repair-role", binding: "istio-cni-repair-rolebinding", account: AGENT };
        let mut rules = vec![rule("", resource, &[verb])];
        if Right::evicts(&make.values.repair) {
            rules.push(rule("", "pods/eviction", &["create"]));
            local.push(rule("coordination.k8s.io", "leases", &["create"]));
            local.push(named("coordination.k8s.io", "leases", "istio-cni-evictions", &["get", "update"]));
        }
        objects.extend(of_cluster(make, names, &rules));
    }
    objects.extend(of_namespace(make, make.namespace(), Names::same(AGENT), &local));
    objects
}

/// Names of a role, its binding and its account.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) role: &'static str,
    pub(super) binding: &'static str,
    pub(super) account: &'static str,
}

impl Names {
    /// One name for all.
    pub(super) const fn same(name: &'static str) -> Self {
        Self { role: name, binding: name, account: name }
    }
}

/// ClusterRole and its binding.
pub(super) fn of_cluster(make: &Maker<'_>, names: Names, rules: &[Value]) -> [Value; 2] {
    [
        make.cluster(CLUSTER_ROLE, names.role, json!({ "rules": rules })),
        make.cluster(CLUSTER_ROLE_BINDING, names.binding, bound(make, "ClusterRole", names)),
    ]
}

/// Role and its binding.
pub(super) fn of_namespace(make: &Maker<'_>, namespace: &str, names: Names, rules: &[Value]) -> [Value; 2] {
    [
        make.within(namespace, ROLE, names.role, json!({ "rules": rules })),
        make.within(namespace, ROLE_BINDING, names.binding, bound(make, "Role", names)),
    ]
}

fn bound(make: &Maker<'_>, kind: &str, names: Names) -> Value {
    json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": names.role },
        "subjects": [{ "kind": "ServiceAccount", "name": names.account, "namespace": make.namespace() }],
    })
}

pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

/// Verbs on one object of a resource.
pub(super) fn named(group: &str, resource: &str, name: &str, verbs: &[&str]) -> Value {
    let mut rule = rule(group, resource, verbs);
    rule["resourceNames"] = json!([name]);
    rule
}
