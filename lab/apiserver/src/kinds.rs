// SPDX-License-Identifier: Apache-2.0
//! The table of resource kinds that this API serves. Another kind is another line; nothing else in the crate names one
//! unless the real API server treats it in a special way.

use serde_json::{Value, json};

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One per cluster and name.
    Cluster,
    /// One per namespace and name.
    Namespaced,
}

/// What becomes of `status` when an object is created; `None` also means that there is no status subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusRule {
    /// The kind has no status subresource: `status` is a field like any other.
    Absent,
    /// The creator's status is kept (nodes register with theirs).
    Kept,
    /// The creator's status is dropped; the phase, if any, is set instead.
    Reset(Option<&'static str>),
}

/// A kind of resource.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The plural name in paths.
    pub plural: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind's name in objects.
    pub name: &'static str,
    /// Where its objects live.
    pub scope: Scope,
    /// How its status behaves.
    pub status: StatusRule,
    /// Fields that a field selector may name, besides the name and the namespace.
    pub fields: &'static [&'static str],
}

const fn core(plural: &'static str, name: &'static str, scope: Scope, status: StatusRule) -> Kind {
    Kind { plural, group: "", version: "v1", name, scope, status, fields: &[] }
}

/// Every kind that is served.
pub static KINDS: [Kind; 8] = [
    Kind {
        fields: &["status.phase"],
        ..core("namespaces", "Namespace", Scope::Cluster, StatusRule::Reset(Some("Active")))
    },
    Kind { fields: &["spec.unschedulable"], ..core("nodes", "Node", Scope::Cluster, StatusRule::Kept) },
    core("configmaps", "ConfigMap", Scope::Namespaced, StatusRule::Absent),
    core("serviceaccounts", "ServiceAccount", Scope::Namespaced, StatusRule::Absent),
    Kind {
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ..core("pods", "Pod", Scope::Namespaced, StatusRule::Reset(Some("Pending")))
    },
    Kind {
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        ..core("events", "Event", Scope::Namespaced, StatusRule::Absent)
    },
    Kind { group: "apps", ..core("daemonsets", "DaemonSet", Scope::Namespaced, StatusRule::Reset(None)) },
    Kind { group: "coordination.k8s.io", ..core("leases", "Lease", Scope::Namespaced, StatusRule::Absent) },
];

impl Kind {
    /// The kind served under a plural name of a group's version.
    #[must_use]
    pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind that an object says it is.
    #[must_use]
    pub fn of(object: &Value) -> Option<&'static Self> {
        KINDS.iter().find(|kind| {
            object["kind"].as_str() == Some(kind.name)
                && object["apiVersion"].as_str() == Some(kind.api_version().as_str())
        })
    }

    /// `apiVersion` in objects: `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name that errors use: `pods`, `daemonsets.apps`.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether there is a status subresource.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.status != StatusRule::Absent
    }

    /// The other subresources that are served.
    #[must_use]
    pub fn actions(&self) -> &'static [&'static str] {
        match self.plural {
            "pods" => &["binding"],
            "serviceaccounts" => &["token"],
            _ => &[],
        }
    }
}

/// The body of a discovery path (`/api`, `/apis`, `/api/v1`, `/apis/apps/v1`), if it is one.
pub(crate) fn discovery(path: &str) -> Option<Value> {
    match path.trim_end_matches('/') {
        "/api" => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        "/apis" => Some(groups()),
        "/api/v1" => resources("", "v1"),
        other => {
            let (group, version) = other.strip_prefix("/apis/")?.split_once('/')?;
            resources(group, version)
        }
    }
}

fn groups() -> Value {
    let mut names: Vec<(&str, &str)> =
        KINDS.iter().filter(|kind| !kind.group.is_empty()).map(|kind| (kind.group, kind.version)).collect();
    names.sort_unstable();
    names.dedup();
    let group = |(name, version): &(&str, &str)| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": names.iter().map(group).collect::<Vec<_>>()})
}

fn resources(group: &str, version: &str) -> Option<Value> {
    const VERBS: [&str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut list = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.group == group && kind.version == version) {
        let entry = |suffix: &str, verbs: &[&str]| {
            json!({
                "name": format!("{}{suffix}", kind.plural), "singularName": kind.name.to_lowercase(),
                "kind": kind.name, "namespaced": kind.scope == Scope::Namespaced, "verbs": verbs,
            })
        };
        list.push(entry("", &VERBS));
        if kind.has_status() {
            list.push(entry("/status", &["get", "patch", "update"]));
        }
        list.extend(kind.actions().iter().map(|action| entry(&format!("/{action}"), &["create"])));
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(
        || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list}),
    )
}
