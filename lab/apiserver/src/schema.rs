// SPDX-License-Identifier: Apache-2.0
//! Fields of built-in kinds: unknown ones are dropped, told as a warning or refused, as `fieldValidation` wants it; values of a wrong type are
//! refused. Pure. Kinds of definitions keep every field.
//!
//! A field is known that survives its type in `k8s-openapi`, which is generated from the API's `OpenAPI` document.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, Pod, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::kinds::Kind;

/// Makes an object what its type knows of it.
type Typed = fn(&Value) -> Result<Value, serde_json::Error>;

fn typed<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(object)?)
}

fn type_of(kind: &Kind) -> Option<Typed> {
    Some(match kind.name {
        "CSIDriver" => typed::<CSIDriver>,
        "CSINode" => typed::<CSINode>,
        "ClusterRole" => typed::<ClusterRole>,
        "ClusterRoleBinding" => typed::<ClusterRoleBinding>,
        "ConfigMap" => typed::<ConfigMap>,
        "DaemonSet" => typed::<DaemonSet>,
        "Deployment" => typed::<Deployment>,
        "Event" => typed::<Event>,
        "Job" => typed::<Job>,
        "Lease" => typed::<Lease>,
        "MutatingWebhookConfiguration" => typed::<MutatingWebhookConfiguration>,
        "Namespace" => typed::<Namespace>,
        "NetworkPolicy" => typed::<NetworkPolicy>,
        "Node" => typed::<Node>,
        "Pod" => typed::<Pod>,
        "PodDisruptionBudget" => typed::<PodDisruptionBudget>,
        "ReplicaSet" => typed::<ReplicaSet>,
        "ResourceQuota" => typed::<ResourceQuota>,
        "Role" => typed::<Role>,
        "RoleBinding" => typed::<RoleBinding>,
        "RuntimeClass" => typed::<RuntimeClass>,
        "Secret" => typed::<Secret>,
        "Service" => typed::<Service>,
        "ServiceAccount" => typed::<ServiceAccount>,
        "StatefulSet" => typed::<StatefulSet>,
        "ValidatingAdmissionPolicy" => typed::<ValidatingAdmissionPolicy>,
        "ValidatingAdmissionPolicyBinding" => typed::<ValidatingAdmissionPolicyBinding>,
        "ValidatingWebhookConfiguration" => typed::<ValidatingWebhookConfiguration>,
        _ => return None,
    })
}

/// Takes unknown fields out of an object, and says which. Parts (`spec`, `status`) that are those of `old`, which is stored, stay: they were pruned when
/// they came, unless the lab put them there itself (`ApiServer::upsert`).
///
/// # Errors
/// [`ApiError::BadRequest`] for a value of a wrong type.
pub(crate) fn prune(kind: &Kind, object: &mut Value, old: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let Some(typed) = type_of(kind) else { return Ok(Vec::new()) };
    let stored = take_stored(object, old);
    let known = typed(object).map_err(|error| unreadable(kind, &error.to_string()))?;
    let mut unknown = Vec::new();
    keep(object, &known, &mut String::new(), &mut unknown);
    if let Value::Object(fields) = object {
        fields.extend(stored);
    }
    Ok(unknown)
}

/// Takes the parts out of an object that it has in common with a stored one; its type is read from the rest.
fn take_stored(object: &mut Value, old: Option<&Value>) -> Map<String, Value> {
    let (Value::Object(fields), Some(Value::Object(old))) = (object, old) else { return Map::new() };
    let (same, changed) = std::mem::take(fields).into_iter().partition(|(name, value)| {
        !matches!(name.as_str(), "apiVersion" | "kind") && old.get(name) == Some(value)
    });
    *fields = changed;
    same
}

/// An object that is none of its kind.
pub(crate) fn unreadable(kind: &Kind, why: &str) -> ApiError {
    let Kind { name, .. } = kind;
    let version = kind.api_version();
    ApiError::BadRequest(format!("{name} in version \"{version}\" cannot be handled as a {name}: {why}"))
}

/// `path`: where the object is; the same again on return.
fn keep(object: &mut Value, known: &Value, path: &mut String, unknown: &mut Vec<String>) {
    let own = path.len();
    match (object, known) {
        (Value::Object(fields), Value::Object(known)) => fields.retain(|name, value| {
            path.push_str(if own == 0 { "" } else { "." });
            path.push_str(name);
            match known.get(name) {
                Some(known) => keep(value, known, path, unknown),
                None if value.is_null() => {}
                None => unknown.push(format!("unknown field \"{path}\"")),
            }
            path.truncate(own);
            known.contains_key(name)
        }),
        (Value::Array(items), Value::Array(known)) => {
            for (place, (item, known)) in items.iter_mut().zip(known).enumerate() {
                path.push_str(&format!("[{place}]"));
                keep(item, known, path, unknown);
                path.truncate(own);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(plural: &str, mut object: Value) -> (Value, Vec<String>) {
        let unknown = prune(Kind::find("", "v1", plural).unwrap(), &mut object, None).unwrap();
        (object, unknown)
    }

    #[test]
    fn what_a_kind_does_not_have_goes_and_what_it_has_stays_as_it_was_written() {
        let spec = json!({"containers": [{"name": "a", "typo": 1, "resources": {"limits": {"cpu": "1000m"}}}], "nonsense": {}, "nodeName": null});
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"any": "label"}}, "spec": spec});
        let (object, unknown) = pruned("pods", object);
        assert_eq!(unknown, ["unknown field \"spec.containers[0].typo\"", "unknown field \"spec.nonsense\""]);
        let spec = json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]});
        assert_eq!(object["spec"], spec);
        assert_eq!(object["metadata"]["labels"]["any"], "label");
    }

    #[test]
    fn of_what_is_stored_the_changed_parts_alone_are_looked_at() {
        let old =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "a"}});
        let mut object = old.clone();
        object["status"] = json!({"phase": "Running", "typo": 1});
        let pods = Kind::find("", "v1", "pods").unwrap();
        assert_eq!(prune(pods, &mut object, Some(&old)).unwrap(), ["unknown field \"status.typo\""]);
        assert_eq!((&object["spec"], &object["status"]), (&old["spec"], &json!({"phase": "Running"})));
        object["spec"]["typo"] = json!(1);
        assert_eq!(prune(pods, &mut object, Some(&old)).unwrap(), ["unknown field \"spec.typo\""]);
        assert_eq!(object["metadata"], old["metadata"]);
    }

    #[test]
    fn every_built_in_kind_has_a_type() {
        for kind in crate::kinds::KINDS.iter().filter(|kind| kind.backing == crate::kinds::Backing::BuiltIn) {
            // A definition brings what no server knows.
            assert!(type_of(kind).is_some() || kind.name == "CustomResourceDefinition", "{}", kind.name);
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": 1}});
        let error =
            prune(Kind::find("", "v1", "configmaps").unwrap(), &mut object, None).unwrap_err().to_string();
        assert!(
            error.starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
            "{error}"
        );
    }
}
