// SPDX-License-Identifier: Apache-2.0
//! Validation of metadata, and of what nodes and controllers rely on, in the real server's words: pure. From
//! `apimachinery/pkg/util/validation` and `pkg/apis/core/validation` of Kubernetes 1.34.

use serde_json::Value;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
     with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
     'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const NAMESERVERS: &str = "must provide at least one DNS nameserver when `dnsPolicy` is None";
/// Groups whose names are parts of paths and nothing else.
const ANY_NAME: &str = "rbac.authorization.k8s.io";

/// Mistakes of an object, by its kind's name and group.
pub(crate) fn mistakes(
    kind: &str,
    group: &str,
    name: &str,
    old: Option<&Value>,
    object: &Value,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if old.is_none() {
        names(kind, group, name, &mut wrong);
    }
    metadata(&object["metadata"], &mut wrong);
    if let Some(old) = old {
        update(kind, old, object, &mut wrong);
    }
    match kind {
        "Pod" if old.is_none() => pod(&object["spec"], "spec", &mut wrong),
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" => workload(&object["spec"], &mut wrong),
        "ConfigMap" => {
            for key in keys(&object["data"]).filter(|key| !fits(key, true, "-._")) {
                wrong.push(format!("data[{key}]: Invalid value: \"{key}\": {CONFIG_KEY}"));
            }
        }
        "Node" => taints(&object["spec"]["taints"], &mut wrong),
        _ => {}
    }
    wrong
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn keys(map: &Value) -> impl Iterator<Item = &str> {
    map.as_object().into_iter().flatten().map(|(key, _)| key.as_str())
}

/// True if a text is not empty and of these characters alone.
fn fits(text: &str, upper: bool, others: &str) -> bool {
    let fits = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || upper && c.is_ascii_uppercase() || others.contains(c)
    };
    !text.is_empty() && text.chars().all(fits)
}

fn is_framed(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_label(text: &str) -> bool {
    fits(text, false, "-") && is_framed(text)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Reason to refuse a label's key: a prefix is not looked at.
pub(crate) fn key_mistake(key: &str) -> Option<&'static str> {
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    (!(fits(name, true, "-_.") && is_framed(name))).then_some(NAME_PART)
}

fn names(kind: &str, group: &str, name: &str, wrong: &mut Vec<String>) {
    let mistake = match kind {
        "Namespace" if name.contains('.') => "must not contain dots",
        "Namespace" if !is_label(name) => LABEL,
        _ if group == ANY_NAME || group == "security.openshift.io" || is_subdomain(name) => return,
        _ => SUBDOMAIN,
    };
    wrong.push(format!("metadata.name: Invalid value: \"{name}\": {mistake}"));
}

fn metadata(metadata: &Value, wrong: &mut Vec<String>) {
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if let Some(mistake) = key_mistake(key) {
            wrong.push(format!("metadata.labels: Invalid value: \"{key}\": {mistake}"));
        }
        let value = value.as_str().unwrap_or_default();
        if !(value.is_empty() || fits(value, true, "-_.") && is_framed(value)) {
            wrong.push(format!("metadata.labels: Invalid value: \"{value}\": {VALUE}"));
        }
    }
    for key in keys(&metadata["annotations"]) {
        if let Some(mistake) = key_mistake(key) {
            wrong.push(format!("metadata.annotations: Invalid value: \"{key}\": {mistake}"));
        }
    }
    let standard = ["orphan", "foregroundDeletion", "kubernetes"];
    for (place, one) in list(&metadata["finalizers"]).iter().enumerate() {
        let one = one.as_str().unwrap_or_default();
        if !one.contains('/') && !standard.contains(&one) {
            let mistake = "name is neither a standard finalizer name nor is it fully qualified";
            wrong.push(format!("metadata.finalizers[{place}]: Invalid value: \"{one}\": {mistake}"));
        }
    }
}

fn update(kind: &str, old: &Value, new: &Value, wrong: &mut Vec<String>) {
    let (before, after) = (&old["metadata"]["finalizers"], &new["metadata"]["finalizers"]);
    if !old["metadata"]["deletionTimestamp"].is_null() {
        let fresh: Vec<String> =
            list(after).iter().filter(|one| !list(before).contains(one)).map(Value::to_string).collect();
        if !fresh.is_empty() {
            let mistake =
                "no new finalizers can be added if the object is being deleted, found new finalizers";
            let fresh = fresh.join(", ");
            let mistake = format!("metadata.finalizers: Forbidden: {mistake} []string{{{fresh}}}");
            wrong.extend([mistake.clone(), mistake]);
        }
    }
    let workload = ["DaemonSet", "Deployment", "ReplicaSet"].contains(&kind);
    if workload && old["spec"]["selector"] != new["spec"]["selector"] {
        wrong.push(format!("spec.selector: Invalid value: {}: field is immutable", new["spec"]["selector"]));
    }
    if ["ConfigMap", "Secret"].contains(&kind) && old["immutable"] == true {
        if new["immutable"] != true {
            wrong.push("immutable: Forbidden: field is immutable when `immutable` is set".to_owned());
        }
        for field in ["data", "binaryData"].into_iter().filter(|field| old[*field] != new[*field]) {
            wrong.push(format!("{field}: Forbidden: field is immutable when `immutable` is set"));
        }
    }
}

fn pod(spec: &Value, path: &str, wrong: &mut Vec<String>) {
    let containers = list(&spec["containers"]);
    if containers.is_empty() {
        wrong.push(format!("{path}.containers: Required value"));
    }
    if spec["dnsPolicy"] == "None" && list(&spec["dnsConfig"]["nameservers"]).is_empty() {
        wrong.push(format!("{path}.dnsConfig.nameservers: Required value: {NAMESERVERS}"));
    }
    let mut known = Vec::new();
    for (place, one) in containers.iter().enumerate() {
        let path = format!("{path}.containers[{place}]");
        match one["name"].as_str().unwrap_or_default() {
            "" => wrong.push(format!("{path}.name: Required value")),
            name if !is_label(name) => wrong.push(format!("{path}.name: Invalid value: \"{name}\": {LABEL}")),
            name if known.contains(&name) => wrong.push(format!("{path}.name: Duplicate value: \"{name}\"")),
            name => known.push(name),
        }
        if one["image"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("{path}.image: Required value"));
        }
    }
}

fn workload(spec: &Value, wrong: &mut Vec<String>) {
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = spec["selector"]["matchLabels"].as_object();
    let none = spec["selector"].is_null();
    if none || wanted.is_some_and(|wanted| wanted.iter().any(|(key, value)| labels[key] != *value)) {
        let mistake = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        wrong.push(format!("spec.template.metadata.labels: {mistake}"));
    }
    match spec["template"]["spec"]["restartPolicy"].as_str() {
        None | Some("Always") => {}
        Some(other) => wrong.push(format!(
            "spec.template.spec.restartPolicy: Unsupported value: \"{other}\": supported values: \"Always\""
        )),
    }
}

fn taints(all: &Value, wrong: &mut Vec<String>) {
    let mut known = Vec::new();
    for (place, taint) in list(all).iter().enumerate() {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let (key, value, effect) = (text("key"), text("value"), text("effect"));
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let supported = "\"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"";
            let mistake = format!("Unsupported value: \"{effect}\": supported values: {supported}");
            wrong.push(format!("metadata.taints[{place}].effect: {mistake}"));
        }
        if known.contains(&(key, effect)) {
            let shown = format!(
                "{{\"Key\":\"{key}\",\"Value\":\"{value}\",\"Effect\":\"{effect}\",\"TimeAdded\":null}}"
            );
            let mistake = "taints must be unique by key and effect pair";
            wrong.push(format!("metadata.taints[{place}]: Duplicate value: {shown}: {mistake}"));
        }
        known.push((key, effect));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(kind: &str, object: &Value) -> String {
        mistakes(kind, "", object["metadata"]["name"].as_str().unwrap(), None, object).join("; ")
    }

    #[test]
    fn names_and_labels_are_of_their_characters() {
        for good in ["a", "a-b.c", "0a"] {
            assert_eq!(
                of("ConfigMap", &json!({"metadata": {"name": good, "labels": {"a.b/C_d": "", "x": "Y.z"}}})),
                ""
            );
        }
        for bad in ["A", "a_b", "-a", "a-", "a..b", ""] {
            assert!(
                of("ConfigMap", &json!({"metadata": {"name": bad}}))
                    .starts_with("metadata.name: Invalid value")
            );
        }
        assert!(of("Namespace", &json!({"metadata": {"name": "a.b"}})).ends_with("must not contain dots"));
    }

    #[test]
    fn a_pod_has_containers_with_a_name_and_an_image() {
        let pod = |containers: Value| {
            of("Pod", &json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}))
        };
        assert_eq!(pod(json!([{"name": "a", "image": "a"}])), "");
        assert_eq!(pod(json!([])), "spec.containers: Required value");
        let both = "spec.containers[0].name: Required value; spec.containers[0].image: Required value";
        assert_eq!(pod(json!([{}])), both);
        let twice = json!([{"name": "a", "image": "a"}, {"name": "a", "image": "a"}]);
        assert_eq!(pod(twice), "spec.containers[1].name: Duplicate value: \"a\"");
    }
}
