// SPDX-License-Identifier: Apache-2.0
//! Validity beyond types: names and labels have the API server's syntax, and referenced objects exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{cases, differ};

/// Checks each rendering.
pub(crate) fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    for rendering in cases::product().iter().chain(&cases::single()) {
        let objects = rendering.ours()?;
        let mut lines = Vec::new();
        for object in &objects {
            let mut own = Vec::new();
            metadata(&object["metadata"], &mut own);
            workload(object, &mut own);
            lines.extend(own.into_iter().map(|line| format!("{}: {line}", differ::key(object))));
        }
        if !["cluster", "namespace"].iter().any(|scope| rendering.name.ends_with(scope)) {
            references(&objects, &mut lines);
        }
        wrong.extend(lines.into_iter().map(|line| format!("{}: {line}", rendering.name)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A DNS subdomain (RFC 1123).
fn is_subdomain(name: &str) -> bool {
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    name.len() <= 253
        && name.split('.').all(|part| {
            let bytes = part.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|byte| edge(Some(byte)) || *byte == b'-')
        })
}

/// Name part of a label's key, or its value.
fn is_word(word: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = word.as_bytes();
    word.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| edge(Some(byte)) || b"-_.".contains(byte))
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, word)) => is_subdomain(prefix) && is_word(word),
        None => is_word(key),
    }
}

fn metadata(metadata: &Value, wrong: &mut Vec<String>) {
    for (what, name) in [("name", &metadata["name"]), ("namespace", &metadata["namespace"])] {
        if !name.is_null() && !is_subdomain(text(name)) {
            wrong.push(format!("{what} {name}"));
        }
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_key(key) || !(text(value).is_empty() || is_word(text(value))) {
            wrong.push(format!("label {key}: {value}"));
        }
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_key(key) || !value.is_string() {
            wrong.push(format!("annotation {key}: {value}"));
        }
    }
}

/// A workload selects its own pods, mounts what it declares, and declares what it mounts.
fn workload(object: &Value, wrong: &mut Vec<String>) {
    let template = &object["spec"]["template"];
    if template.is_null() {
        return;
    }
    metadata(&template["metadata"], wrong);
    for (key, value) in object["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
        if template["metadata"]["labels"][key] != *value {
            wrong.push(format!("selector {key}={value} misses its pods"));
        }
    }
    let pod = &template["spec"];
    let names =
        |list: &[Value]| list.iter().map(|one| text(&one["name"]).to_owned()).collect::<BTreeSet<_>>();
    let declared = names(list(&pod["volumes"]));
    let container = &pod["containers"][0];
    let mounted = names(list(&container["volumeMounts"]));
    if declared != mounted {
        wrong.push(format!("volumes {declared:?}, mounts {mounted:?}"));
    }
    for volume in list(&pod["volumes"]) {
        if !text(&volume["hostPath"]["path"]).starts_with('/') {
            wrong.push(format!("volume {volume}"));
        }
    }
    let image = text(&container["image"]);
    if image.is_empty()
        || image.contains(char::is_whitespace)
        || image.starts_with('/')
        || image.ends_with(':')
    {
        wrong.push(format!("image {image:?}"));
    }
}

/// Referenced objects are rendered, too.
fn references(objects: &[Value], wrong: &mut Vec<String>) {
    let there: BTreeSet<_> = objects.iter().map(differ::key).collect();
    let mut need = |from: &Value, kind: &str, namespace: &Value, name: &Value| {
        let namespace = namespace.as_str().unwrap_or("-");
        let key = format!("{kind} {namespace}/{}", text(name));
        if !there.contains(&key) {
            wrong.push(format!("{} names {key}, which is not there", differ::key(from)));
        }
    };
    for object in objects {
        let namespace = &object["metadata"]["namespace"];
        let role = &object["roleRef"];
        if !role.is_null() {
            let of = if role["kind"] == "Role" { namespace } else { &Value::Null };
            need(object, text(&role["kind"]), of, &role["name"]);
        }
        for subject in list(&object["subjects"]) {
            need(object, "ServiceAccount", &subject["namespace"], &subject["name"]);
        }
        if object["kind"] == "ValidatingAdmissionPolicyBinding" {
            need(object, "ValidatingAdmissionPolicy", &Value::Null, &object["spec"]["policyName"]);
        }
        let pod = &object["spec"]["template"]["spec"];
        if !pod.is_null() {
            need(object, "ServiceAccount", namespace, &pod["serviceAccountName"]);
            for source in list(&pod["containers"][0]["envFrom"]) {
                need(object, "ConfigMap", namespace, &source["configMapRef"]["name"]);
            }
        }
    }
}
