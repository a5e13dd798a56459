// SPDX-License-Identifier: Apache-2.0
//! Nodes that a pod may run on: node selectors, node affinity, taints. Pure.

use serde_json::{Value, json};

/// True if a node's labels match the pod's selector and affinity.
#[must_use]
pub fn selected(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let selector = spec["nodeSelector"].as_object();
    let selected = selector.into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    selected && terms.is_none_or(|terms| terms.iter().any(|term| matches_term(term, node)))
}

fn matches_term(term: &Value, node: &Value) -> bool {
    let all = |list: &str, of: &Value| {
        term[list].as_array().into_iter().flatten().all(|expression| holds(expression, of))
    };
    let fields = json!({ "metadata.name": node["metadata"]["name"] });
    all("matchExpressions", &node["metadata"]["labels"]) && all("matchFields", &fields)
}

/// True if a label selector says nothing.
#[must_use]
pub fn is_empty(selector: &Value) -> bool {
    let exact = selector["matchLabels"].as_object();
    let expressions = selector["matchExpressions"].as_array();
    exact.is_none_or(serde_json::Map::is_empty) && expressions.is_none_or(Vec::is_empty)
}

fn holds(expression: &Value, of: &Value) -> bool {
    let value = &of[expression["key"].as_str().unwrap_or_default()];
    let values = expression["values"].as_array();
    let listed = values.into_iter().flatten().any(|one| one == value);
    match expression["operator"].as_str() {
        Some("In") => listed,
        Some("NotIn") => !listed,
        Some("Exists") => !value.is_null(),
        Some("DoesNotExist") => value.is_null(),
        _ => false,
    }
}

/// True if a label selector of an object (`matchLabels`, `matchExpressions`) matches labels. An empty one matches nothing here: the real API
/// server rejects it for each kind that has pods.
#[must_use]
pub fn selects(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object();
    let expressions = selector["matchExpressions"].as_array();
    !is_empty(selector)
        && exact.into_iter().flatten().all(|(key, value)| labels[key] == *value)
        && expressions.into_iter().flatten().all(|expression| holds(expression, labels))
}

/// First taint of a node that keeps a pod from being started there and that the pod does not tolerate.
#[must_use]
pub fn untolerated<'a>(spec: &Value, node: &'a Value) -> Option<&'a Value> {
    let taints = node["spec"]["taints"].as_array();
    let keeps_out = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
    taints.into_iter().flatten().filter(keeps_out).find(|taint| toleration(spec, taint).is_none())
}

/// First toleration of a pod that tolerates a taint.
#[must_use]
pub fn toleration<'a>(spec: &'a Value, taint: &Value) -> Option<&'a Value> {
    spec["tolerations"].as_array().into_iter().flatten().find(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let any = |field: &str| toleration[field].as_str().is_none_or(str::is_empty);
    let same = |field: &str| toleration[field] == taint[field];
    let key = (any("key") && toleration["operator"] == "Exists") || same("key");
    let value =
        toleration["operator"] == "Exists" || same("value") || (any("value") && taint["value"].is_null());
    key && value && (any("effect") || same("effect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_any_of_its_terms_and_all_of_a_terms_expressions() {
        let spec = |operator: &str| {
            let expression = json!({ "key": "os", "operator": operator, "values": ["linux"] });
            let terms = json!([{ "matchExpressions": [expression] }]);
            let required = json!({ "nodeSelectorTerms": terms });
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })
        };
        let node = json!({ "metadata": { "name": "a", "labels": { "os": "linux" } } });
        assert!(selected(&spec("In"), &node) && !selected(&spec("NotIn"), &node));
        assert!(selected(&spec("Exists"), &node) && !selected(&spec("DoesNotExist"), &node));
    }

    #[test]
    fn an_empty_label_selector_selects_nothing() {
        let labels = json!({ "app": "cart" });
        assert!(!selects(&json!({}), &labels) && !selects(&json!({ "matchLabels": {} }), &labels));
        assert!(selects(&json!({ "matchLabels": { "app": "cart" } }), &labels));
        let absent = json!({ "matchExpressions": [{ "key": "x", "operator": "NotIn", "values": ["1"] }] });
        assert!(selects(&absent, &labels), "NotIn holds where there is no such label");
    }
}
