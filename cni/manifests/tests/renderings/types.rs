// SPDX-License-Identifier: Apache-2.0
//! Each object goes through the Kubernetes API's own type for its kind and comes back unchanged: a field that the type does not have, or has with
//! another type, would be lost or refused. A `NetworkAttachmentDefinition` has no such type: it is held against what its
//! definition asks for, which is metadata, and nothing else is rendered.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{cases, differ};

/// Round trip of an object through its type.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(object)?)
}

fn typed(object: &Value) -> Result<Value, String> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let back = match (text("apiVersion"), text("kind")) {
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy") => {
            through::<ValidatingAdmissionPolicy>(object)
        }
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding") => {
            through::<ValidatingAdmissionPolicyBinding>(object)
        }
        ("apps/v1", "DaemonSet") => through::<DaemonSet>(object),
        ("apps/v1", "Deployment") => through::<Deployment>(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => through::<NetworkPolicy>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => through::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => through::<ClusterRoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => through::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => through::<RoleBinding>(object),
        ("v1", "ConfigMap") => through::<ConfigMap>(object),
        ("v1", "ResourceQuota") => through::<ResourceQuota>(object),
        ("v1", "ServiceAccount") => through::<ServiceAccount>(object),
        ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition") => through::<ObjectMeta>(&object["metadata"])
            .map(|metadata| {
                let (version, kind) = (text("apiVersion"), text("kind"));
                serde_json::json!({ "apiVersion": version, "kind": kind, "metadata": metadata })
            }),
        (version, kind) => return Err(format!("no type is known for {version} {kind}")),
    };
    back.map_err(|error| error.to_string())
}

/// Each object of each rendering decodes as its type.
pub(crate) fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    for rendering in cases::product().iter().chain(&cases::single()) {
        for object in rendering.ours()? {
            let name = format!("{} {}", rendering.name, differ::key(&object));
            match typed(&object) {
                Err(why) => wrong.push(format!("{name}: {why}")),
                Ok(back) => {
                    let lines = differ::objects(&[object], &[back]);
                    wrong.extend(lines.into_iter().map(|line| format!("{name}: {line}")));
                }
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
