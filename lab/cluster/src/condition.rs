// SPDX-License-Identifier: Apache-2.0
//! Conditions of an object: entries of its `status.conditions`, each with a `type` and a `status`.

use serde_json::Value;

/// Type of a condition of a service that all of the lab's own nodes translate. A real kube-proxy tells nobody.
pub const TRANSLATED: &str = "cnilab.millrace.dev/Translated";

/// The condition of this type, if its status is `True`.
#[must_use]
pub fn holding<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == kind && one["status"] == "True")
}

/// True if an object, a pod or a node, has the condition `Ready`.
#[must_use]
pub fn is_ready(object: &Value) -> bool {
    holding(object, "Ready").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_holds_by_its_status() {
        let object = |status: &str| {
            let conditions = [
                json!({ "type": "Initialized", "status": "True" }),
                json!({ "type": "Ready", "status": status }),
            ];
            json!({ "status": { "conditions": conditions } })
        };
        assert!(is_ready(&object("True")));
        assert!(!is_ready(&object("False")) && !is_ready(&object("Unknown")));
        assert!(!is_ready(&Value::Null), "no status yet");
        assert_eq!(holding(&object("False"), "Initialized").unwrap()["type"], "Initialized");
    }
}
