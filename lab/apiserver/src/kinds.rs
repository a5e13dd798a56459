// SPDX-License-Identifier: Apache-2.0
//! The table of resource kinds that this API serves. Another kind is another line; nothing else in the crate names one
//! unless the real API server treats it in a special way.

use serde_json::Value;

/// Scope of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// One per cluster and name.
    Cluster,
    /// One per namespace and name.
    Namespaced,
}

/// Handling of `status` on create; `None` also means that there is no status subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusRule {
    /// The kind has no status subresource: `status` is a field like any other.
    Absent,
    /// The creator's status is kept (nodes register with theirs).
    Kept,
    /// The creator's status is dropped; the phase, if any, is set instead.
    Reset(Option<&'static str>),
}

/// Condition for a kind to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backing {
    /// Built in.
    BuiltIn,
    /// A `CustomResourceDefinition` of its name exists.
    Definition,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Plural name in paths.
    pub plural: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// `kind` in objects.
    pub name: &'static str,
    /// Scope.
    pub scope: Scope,
    /// Handling of its status.
    pub status: StatusRule,
    /// Fields that a field selector may name, besides the name and the namespace.
    pub fields: &'static [&'static str],
    /// Condition for it to be served.
    pub backing: Backing,
}

const fn core(plural: &'static str, name: &'static str, scope: Scope, status: StatusRule) -> Kind {
    Kind { plural, group: "", version: "v1", name, scope, status, fields: &[], backing: Backing::BuiltIn }
}

/// Kind without a status subresource.
const fn plain(plural: &'static str, group: &'static str, name: &'static str, scope: Scope) -> Kind {
    Kind { group, ..core(plural, name, scope, StatusRule::Absent) }
}

/// Kind of a definition.
const fn custom(
    plural: &'static str,
    group: &'static str,
    version: &'static str,
    name: &'static str,
) -> Kind {
    Kind { version, backing: Backing::Definition, ..plain(plural, group, name, Scope::Namespaced) }
}

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
pub(crate) const ADMISSION: &str = "admissionregistration.k8s.io";

pub const NAMESPACE: Kind = Kind {
    fields: &["status.phase"],
    ..core("namespaces", "Namespace", Scope::Cluster, StatusRule::Reset(Some("Active")))
};
pub const NODE: Kind =
    Kind { fields: &["spec.unschedulable"], ..core("nodes", "Node", Scope::Cluster, StatusRule::Kept) };
pub const CONFIG_MAP: Kind = core("configmaps", "ConfigMap", Scope::Namespaced, StatusRule::Absent);
pub const SERVICE_ACCOUNT: Kind =
    core("serviceaccounts", "ServiceAccount", Scope::Namespaced, StatusRule::Absent);
pub const POD: Kind = Kind {
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
};
pub const SERVICE: Kind = Kind {
    fields: &["spec.clusterIP", "spec.type"],
    ..core("services", "Service", Scope::Namespaced, StatusRule::Reset(None))
};
pub const CLUSTER_ROLE_BINDING: Kind =
    plain("clusterrolebindings", RBAC, "ClusterRoleBinding", Scope::Cluster);
pub const CLUSTER_ROLE: Kind = plain("clusterroles", RBAC, "ClusterRole", Scope::Cluster);
pub const ROLE_BINDING: Kind = plain("rolebindings", RBAC, "RoleBinding", Scope::Namespaced);
pub const ROLE: Kind = plain("roles", RBAC, "Role", Scope::Namespaced);
pub const ADMISSION_POLICY: Kind = Kind {
    group: ADMISSION,
    ..core(
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        Scope::Cluster,
        StatusRule::Reset(None),
    )
};
pub const MUTATING_WEBHOOKS: Kind =
    plain("mutatingwebhookconfigurations", ADMISSION, "MutatingWebhookConfiguration", Scope::Cluster);
pub const VALIDATING_WEBHOOKS: Kind =
    plain("validatingwebhookconfigurations", ADMISSION, "ValidatingWebhookConfiguration", Scope::Cluster);
pub const ADMISSION_POLICY_BINDING: Kind =
    plain("validatingadmissionpolicybindings", ADMISSION, "ValidatingAdmissionPolicyBinding", Scope::Cluster);
pub const DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    ..core("customresourcedefinitions", "CustomResourceDefinition", Scope::Cluster, StatusRule::Reset(None))
};

/// All of them.
pub static KINDS: [Kind; 33] = [
    NAMESPACE,
    NODE,
    CONFIG_MAP,
    SERVICE_ACCOUNT,
    POD,
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
    SERVICE,
    core("secrets", "Secret", Scope::Namespaced, StatusRule::Absent),
    core("resourcequotas", "ResourceQuota", Scope::Namespaced, StatusRule::Reset(None)),
    Kind { group: "apps", ..core("replicasets", "ReplicaSet", Scope::Namespaced, StatusRule::Reset(None)) },
    Kind { group: "apps", ..core("deployments", "Deployment", Scope::Namespaced, StatusRule::Reset(None)) },
    Kind { group: "apps", ..core("statefulsets", "StatefulSet", Scope::Namespaced, StatusRule::Reset(None)) },
    Kind { group: "batch", ..core("jobs", "Job", Scope::Namespaced, StatusRule::Reset(None)) },
    Kind {
        group: "policy",
        ..core("poddisruptionbudgets", "PodDisruptionBudget", Scope::Namespaced, StatusRule::Reset(None))
    },
    plain("csidrivers", STORAGE, "CSIDriver", Scope::Cluster),
    plain("csinodes", STORAGE, "CSINode", Scope::Cluster),
    plain("runtimeclasses", "node.k8s.io", "RuntimeClass", Scope::Cluster),
    plain("networkpolicies", "networking.k8s.io", "NetworkPolicy", Scope::Namespaced),
    CLUSTER_ROLE_BINDING,
    CLUSTER_ROLE,
    ROLE_BINDING,
    ROLE,
    ADMISSION_POLICY,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    ADMISSION_POLICY_BINDING,
    DEFINITION,
    custom("servicemeshes", "asm.alauda.io", "v1alpha1", "ServiceMesh"),
    custom("istiooperators", "install.istio.io", "v1alpha1", "IstioOperator"),
    custom("network-attachment-definitions", "k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition"),
    Kind {
        scope: Scope::Cluster,
        ..custom("securitycontextconstraints", "security.openshift.io", "v1", "SecurityContextConstraints")
    },
];

impl Kind {
    /// Kind of a plural name in a group's version.
    #[must_use]
    pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// Kind of objects with this `kind`, which no two groups have here.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Kind of an object, by its own fields.
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

    /// Name in errors: `pods`, `daemonsets.apps`.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Name in errors about an invalid object: `Pod`, `DaemonSet.apps`.
    #[must_use]
    pub fn of_group(&self) -> String {
        if self.group.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.name, self.group) }
    }

    /// True if it has a status subresource.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.status != StatusRule::Absent
    }

    /// Other subresources.
    #[must_use]
    pub fn actions(&self) -> &'static [Action] {
        match self.plural {
            "pods" => &PODS,
            "serviceaccounts" => &ACCOUNTS,
            "deployments" | "replicasets" | "statefulsets" => &REPLICATED,
            _ => &[],
        }
    }
}

/// A subresource that is no part of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Its name in paths.
    pub name: &'static str,
    /// Group and version of what is sent to it, or comes from it, if not its object's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// `kind` of that.
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

const fn action(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Action {
    Action { name, group_version: None, kind, verbs }
}

static PODS: [Action; 5] = [
    action("binding", "Binding", &["create"]),
    Action { group_version: Some(("policy", "v1")), ..action("eviction", "Eviction", &["create"]) },
    action("exec", "PodExecOptions", &["create", "get"]),
    action("log", "Pod", &["get"]),
    action("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"]),
];

static ACCOUNTS: [Action; 1] = [Action {
    group_version: Some(("authentication.k8s.io", "v1")),
    ..action("token", "TokenRequest", &["create"])
}];

static REPLICATED: [Action; 1] = [Action {
    group_version: Some(("autoscaling", "v1")),
    ..action("scale", "Scale", &["get", "patch", "update"])
}];
