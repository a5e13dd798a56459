// SPDX-License-Identifier: Apache-2.0
//! The subresource `scale` (`autoscaling/v1`): the number of replicas, and the selector of those that there are.

use serde_json::{Value, json};

use crate::selector;

/// Scale of an object.
pub(crate) fn of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        // As everywhere, a zero is not sent.
        "spec": match object["spec"]["replicas"].as_u64() {
            None | Some(0) => json!({}),
            Some(replicas) => json!({ "replicas": replicas }),
        },
        "status": {
            "replicas": object["status"]["replicas"].as_u64().unwrap_or(0),
            "selector": selector::written(&object["spec"]["selector"]),
        },
    })
}

/// The object with the replicas of a scale; a resource version in that is a precondition.
///
/// # Errors
/// The replicas are invalid.
pub(crate) fn applied(old: &Value, scale: &Value) -> Result<Value, String> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        return Err(format!("spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"));
    }
    let mut object = old.clone();
    object["spec"]["replicas"] = json!(replicas);
    if let Some(version) = scale["metadata"].get("resourceVersion") {
        object["metadata"]["resourceVersion"] = version.clone();
    }
    Ok(object)
}
