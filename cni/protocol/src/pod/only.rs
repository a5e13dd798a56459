// SPDX-License-Identifier: Apache-2.0
//! The one pod among the objects of a file, as `kubectl get` writes it: alone, in a list, or among others.

use serde_json::Value;

/// Not exactly one pod among objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOnePod {
    /// None; the kinds of the objects that there are.
    #[error("it has {}", if .0.is_empty() { "nothing".to_owned() } else { .0.join(", ") })]
    None(Vec<String>),
    /// More; their names.
    #[error("it has {}; give one of them", .0.join(", "))]
    Several(Vec<String>),
}

/// The one object of kind `Pod` in `documents` and in the lists among them.
///
/// # Errors
/// See [`NotOnePod`].
pub fn only(documents: impl IntoIterator<Item = Value>) -> Result<Value, NotOnePod> {
    let objects = documents.into_iter().flat_map(items);
    let (mut pods, others): (Vec<Value>, Vec<Value>) = objects.partition(|object| kind(object) == "Pod");
    match (pods.pop(), pods.is_empty()) {
        (Some(pod), true) => Ok(pod),
        (Some(last), false) => Err(NotOnePod::Several(pods.iter().chain([&last]).map(name).collect())),
        (None, _) => Err(NotOnePod::None(others.iter().map(kind).map(str::to_owned).collect())),
    }
}

/// Items of a list, or the object itself.
fn items(mut document: Value) -> Vec<Value> {
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![document],
    }
}

fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or("nothing")
}

fn name(pod: &Value) -> String {
    pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("a pod without a name").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name}})
    }

    #[test]
    fn one_pod_is_found_wherever_it_is() {
        let list = json!({"kind": "List", "items": [{"kind": "Service"}, pod("cart")]});
        assert_eq!(only([pod("cart")]), Ok(pod("cart")));
        assert_eq!(only([json!({"kind": "Service", "spec": {"items": 7}}), list]), Ok(pod("cart")));
    }

    #[test]
    fn anything_else_is_told_by_what_there_is() {
        let text = |documents: &[Value]| only(documents.to_vec()).unwrap_err().to_string();
        assert_eq!(text(&[json!({"kind": "Service"}), json!({})]), "it has Service, nothing");
        assert_eq!(text(&[json!({"kind": "List", "items": []})]), "it has nothing");
        assert_eq!(text(&[json!([])]), "it has nothing");
        assert_eq!(text(&[]), "it has nothing");
        assert_eq!(text(&[pod("cart"), json!({"items": [pod("b")]})]), "it has cart, b; give one of them");
    }
}
