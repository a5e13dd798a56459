// SPDX-License-Identifier: Apache-2.0
//! Defaults and checks of the kinds that controllers make pods for: those that the controllers rely on.

use serde_json::{Value, json};

/// Kinds whose pods a controller makes; their generation is counted from the creation.
pub(crate) const KINDS: [&str; 5] = ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job"];

/// Labels by which a Job knows its pods, since 1.27 and before.
const JOB_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(crate) fn fill_in(kind: &str, object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    let set = |object: &mut Value, field: &str, value: Value| {
        if object["spec"][field].is_null() {
            object["spec"][field] = value;
        }
    };
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => set(object, "replicas", json!(1)),
        "Job" => {
            // One without completions is a work queue if it says how many work at once.
            let once = object["spec"]["completions"].is_null() && object["spec"]["parallelism"].is_null();
            if once {
                set(object, "completions", json!(1));
            }
            set(object, "parallelism", json!(1));
            set(object, "backoffLimit", json!(6));
            if object["spec"]["manualSelector"] != true {
                select_by_uid(object);
            }
        }
        _ => {}
    }
}

/// Nobody else has a Job's pods: its UID is in its selector and in its pods' labels.
fn select_by_uid(job: &mut Value) {
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    if uid.is_null() {
        return;
    }
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    for (keys, value) in [(JOB_UID, &uid), (JOB_NAME, &name)] {
        for key in keys {
            labels[key] = value.clone();
        }
    }
    job["spec"]["selector"] = json!({ "matchLabels": { JOB_UID[0]: uid } });
}

/// Rejects a Job whose pods would never end.
pub(crate) fn check(kind: &str, object: &Value) -> Result<(), String> {
    const FIELD: &str = "spec.template.spec.restartPolicy";
    match object["spec"]["template"]["spec"]["restartPolicy"].as_str() {
        _ if kind != "Job" => Ok(()),
        Some("Never" | "OnFailure") => Ok(()),
        None => Err(format!("{FIELD}: Required value: valid values: \"OnFailure\", \"Never\"")),
        Some(other) => Err(format!(
            "{FIELD}: Unsupported value: \"{other}\": supported values: \"OnFailure\", \"Never\""
        )),
    }
}
