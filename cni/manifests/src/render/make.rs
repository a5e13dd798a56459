// SPDX-License-Identifier: Apache-2.0
//! Common parts of all objects: kind, name, labels.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::values::{Object, Values};

/// `apiVersion` and `kind`.
#[derive(Clone, Copy)]
pub(super) struct ApiKind(pub(super) &'static str, pub(super) &'static str);

pub(super) const ACCOUNT: ApiKind = ApiKind("v1", "ServiceAccount");
pub(super) const BINDING: ApiKind =
    ApiKind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding");
pub(super) const CLUSTER_ROLE: ApiKind = ApiKind("rbac.authorization.k8s.io/v1", "ClusterRole");
pub(super) const CLUSTER_ROLE_BINDING: ApiKind =
    ApiKind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
pub(super) const CONFIG_MAP: ApiKind = ApiKind("v1", "ConfigMap");
pub(super) const DAEMON_SET: ApiKind = ApiKind("apps/v1", "DaemonSet");
pub(super) const DEPLOYMENT: ApiKind = ApiKind("apps/v1", "Deployment");
pub(super) const NETWORK: ApiKind = ApiKind("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition");
pub(super) const NETWORK_POLICY: ApiKind = ApiKind("networking.k8s.io/v1", "NetworkPolicy");
pub(super) const POLICY: ApiKind = ApiKind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy");
pub(super) const QUOTA: ApiKind = ApiKind("v1", "ResourceQuota");
pub(super) const ROLE: ApiKind = ApiKind("rbac.authorization.k8s.io/v1", "Role");
pub(super) const ROLE_BINDING: ApiKind = ApiKind("rbac.authorization.k8s.io/v1", "RoleBinding");

pub(super) type Labels = BTreeMap<String, String>;

/// Builder of a component's objects.
pub(super) struct Maker<'a> {
    /// Source.
    pub(super) values: &'a Values,
    /// Common labels.
    pub(super) labels: Labels,
}

impl<'a> Maker<'a> {
    pub(super) fn agent(values: &'a Values) -> Self {
        let release = &values.release.name;
        let labels = [
            ("app", "istio-cni".to_owned()),
            ("app.kubernetes.io/instance", release.clone()),
            ("app.kubernetes.io/name", "istio-cni".to_owned()),
            ("app.kubernetes.io/part-of", "istio".to_owned()),
            ("app.kubernetes.io/version", env!("CARGO_PKG_VERSION").to_owned()),
            ("install.operator.istio.io/owning-resource", or(&values.owner_name, "unknown")),
            ("istio.io/rev", or(&values.revision, "default")),
            ("operator.istio.io/component", "Cni".to_owned()),
            ("release", release.clone()),
        ];
        Self { values, labels: labels.map(|(key, value)| (key.to_owned(), value)).into() }
    }

    /// For the taint controller's objects.
    pub(super) fn taint(values: &'a Values) -> Self {
        let mut maker = Self::agent(values);
        for key in ["app", "k8s-app"] {
            maker.labels.insert(key.to_owned(), super::rights::TAINT.to_owned());
        }
        maker
    }

    pub(super) fn namespace(&self) -> &'a str {
        &self.values.release.namespace
    }

    /// Cluster-scoped object.
    pub(super) fn cluster(&self, kind: ApiKind, name: &str, body: Value) -> Value {
        object(kind, json!({ "name": name, "labels": self.labels }), body)
    }

    /// Object in the release's namespace.
    pub(super) fn local(&self, kind: ApiKind, name: &str, body: Value) -> Value {
        self.within(self.namespace(), kind, name, body)
    }

    /// Object in a namespace.
    pub(super) fn within(&self, namespace: &str, kind: ApiKind, name: &str, body: Value) -> Value {
        object(kind, json!({ "name": name, "namespace": namespace, "labels": self.labels }), body)
    }
}

fn object(kind: ApiKind, metadata: Value, body: Value) -> Value {
    let mut object = Object::new();
    object.insert("apiVersion".to_owned(), kind.0.into());
    object.insert("kind".to_owned(), kind.1.into());
    object.insert("metadata".to_owned(), metadata);
    if let Value::Object(body) = body {
        object.extend(body);
    }
    object.into()
}

/// Merges labels or annotations; the later win.
pub(super) fn merged<'a>(layers: impl IntoIterator<Item = &'a Labels>) -> Labels {
    layers.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Labels or annotations of our own.
pub(super) fn fixed<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Sets `key` unless it would be empty.
pub(super) fn put_unless_empty(object: &mut Value, key: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if !is_empty {
        object[key] = value;
    }
}

/// `text`, or `other` if it is empty.
pub(super) fn or(text: &str, other: &str) -> String {
    if text.is_empty() { other.to_owned() } else { text.to_owned() }
}
