// SPDX-License-Identifier: Apache-2.0
//! Strategic merge patches: what kubectl sends for built-in kinds (`apply`, `taint`, `cordon`, `set`). Lists of objects with a key are merged
//! by it, others replaced; directives (`$patch`, `$retainKeys`, `$setElementOrder`, `$deleteFromPrimitiveList`) are followed.
//!
//! After `apimachinery/pkg/util/strategicpatch`. Keys are those of the fields' `patchMergeKey` in `k8s.io/api`.

use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";

/// Merge key of a list; empty for lists of plain values that are merged.
fn merge_key(field: &str, item: &Value) -> Option<&'static str> {
    Some(match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "webhooks"
        | "schedulingGates"
        | "resourceClaims" => "name",
        // Of a container, or of a service.
        "ports" if item["containerPort"].is_null() => "port",
        "ports" => "containerPort",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "finalizers" | "podCIDRs" => "",
        _ => return None,
    })
}

/// Applies a patch to an object.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if changes.get(PATCH).is_some_and(|directive| directive == "replace") {
        *target = without_directives(changes);
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (field, change) in changes {
        if let Some(field) = field.strip_prefix(REMOVE) {
            remove(fields.get_mut(field), change);
        } else if !field.starts_with('$') {
            merge_field(fields, field, change);
        }
    }
    for (field, order) in changes {
        if let Some(field) = field.strip_prefix(ORDER) {
            arrange(field, fields.get_mut(field), order);
        }
    }
    if let Some(kept) = changes.get(RETAIN).and_then(Value::as_array) {
        fields.retain(|field, _| kept.iter().any(|one| one == field.as_str()));
    }
}

fn without_directives(changes: &Map<String, Value>) -> Value {
    let fields = changes.iter().filter(|(field, _)| !field.starts_with('$'));
    Value::Object(fields.map(|(field, value)| (field.clone(), value.clone())).collect())
}

fn merge_field(fields: &mut Map<String, Value>, field: &str, change: &Value) {
    let is_deleted = change.is_null() || change[PATCH] == "delete";
    if is_deleted {
        fields.remove(field);
        return;
    }
    let old = fields.entry(field).or_insert(Value::Null);
    match (old.as_array_mut(), change) {
        (Some(items), Value::Array(changes)) => merge_list(field, items, changes),
        (None, Value::Array(changes)) => {
            let mut items = Vec::new();
            merge_list(field, &mut items, changes);
            *old = Value::Array(items);
        }
        _ => merge(old, change),
    }
}

fn merge_list(field: &str, items: &mut Vec<Value>, changes: &[Value]) {
    let first = changes.iter().find(|change| change[PATCH].is_null()).or(items.first());
    let key = first.and_then(|item| merge_key(field, item));
    let replaces = changes.iter().any(|change| change[PATCH] == "replace");
    let (Some(key), false) = (key, replaces) else {
        *items = changes.iter().filter(|change| change[PATCH].is_null()).cloned().collect();
        return;
    };
    let before = items.clone();
    let same_item =
        |one: &Value, other: &Value| if key.is_empty() { one == other } else { one[key] == other[key] };
    for change in changes {
        let same = |item: &Value| same_item(item, change);
        if change[PATCH] == "delete" {
            items.retain(|item| !same(item));
        } else if let Some(item) = items.iter_mut().find(|item| same(item)) {
            merge(item, change);
        } else {
            let mut item = Value::Null;
            merge(&mut item, change);
            items.push(item);
        }
    }
    let place = |item: &Value| before.iter().position(|one| same_item(one, item));
    *items =
        in_order(std::mem::take(items), |item| changes.iter().position(|one| same_item(one, item)), place);
}

/// Items of a patch in its own order, and among them those of the object alone, as far as the object has both: what is new comes first.
fn in_order(
    items: Vec<Value>,
    of_patch: impl Fn(&Value) -> Option<usize>,
    before: impl Fn(&Value) -> Option<usize>,
) -> Vec<Value> {
    let (mut patched, kept): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| of_patch(item).is_some());
    patched.sort_by_key(&of_patch);
    let (mut patched, mut kept) = (patched.into_iter().peekable(), kept.into_iter().peekable());
    let mut ordered = Vec::new();
    loop {
        let kept_first = match (patched.peek(), kept.peek()) {
            (None, None) => return ordered,
            (Some(one), Some(other)) => {
                before(one).is_some_and(|place| before(other).is_some_and(|kept| kept < place))
            }
            (None, Some(_)) => true,
            (Some(_), None) => false,
        };
        ordered.extend(if kept_first { kept.next() } else { patched.next() });
    }
}

fn remove(items: Option<&mut Value>, removed: &Value) {
    if let (Some(items), Some(removed)) = (items.and_then(Value::as_array_mut), removed.as_array()) {
        items.retain(|item| !removed.contains(item));
    }
}

/// Arranges a list as the patch says; what it does not name, as somebody else has added it, comes after.
fn arrange(field: &str, items: Option<&mut Value>, order: &Value) {
    let (Some(items), Some(order)) = (items.and_then(Value::as_array_mut), order.as_array()) else { return };
    let place = |item: &Value| {
        let key = merge_key(field, item).unwrap_or_default();
        let at =
            order.iter().position(|one| if key.is_empty() { one == item } else { one[key] == item[key] });
        at.unwrap_or(usize::MAX)
    };
    items.sort_by_key(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(object: Value, patch: &Value) -> Value {
        let mut object = object;
        merge(&mut object, patch);
        object
    }

    #[test]
    fn lists_with_a_key_are_merged_by_it() {
        let pod = json!({ "spec": { "containers": [{ "name": "app", "image": "a:1" }, { "name": "proxy", "image": "p" }] } });
        let patch = json!({ "spec": {
            "$setElementOrder/containers": [{ "name": "new" }, { "name": "app" }],
            "containers": [{ "name": "app", "image": "a:2" }, { "name": "new", "image": "n" }],
        } });
        let expected = json!({ "spec": { "containers": [
            { "name": "new", "image": "n" }, { "name": "app", "image": "a:2" }, { "name": "proxy", "image": "p" },
        ] } });
        assert_eq!(patched(pod, &patch), expected);
    }

    #[test]
    fn other_lists_are_replaced() {
        let node = json!({ "spec": { "taints": [{ "key": "a" }, { "key": "b" }] } });
        assert_eq!(
            patched(node, &json!({ "spec": { "taints": [{ "key": "c" }] } })),
            json!({ "spec": { "taints": [{ "key": "c" }] } })
        );
    }

    #[test]
    fn an_item_a_field_or_a_value_is_deleted() {
        let object = json!({
            "metadata": { "labels": { "a": "1", "b": "2" }, "finalizers": ["x", "y"] },
            "spec": { "containers": [{ "name": "app", "env": [{ "name": "A", "value": "1" }, { "name": "B" }] }] },
        });
        let patch = json!({
            "metadata": { "labels": { "a": null }, "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"] },
            "spec": { "containers": [{ "name": "app", "env": [{ "name": "A", "$patch": "delete" }] }] },
        });
        let expected = json!({
            "metadata": { "labels": { "b": "2" }, "finalizers": ["z", "y"] },
            "spec": { "containers": [{ "name": "app", "env": [{ "name": "B" }] }] },
        });
        assert_eq!(patched(object, &patch), expected);
    }

    #[test]
    fn directives_replace_and_retain() {
        let object = json!({ "spec": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1 } },
                                       "selector": { "a": "1", "b": "2" } } });
        let patch = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" },
                                      "selector": { "$patch": "replace", "c": "3" } } });
        let expected = json!({ "spec": { "strategy": { "type": "Recreate" }, "selector": { "c": "3" } } });
        assert_eq!(patched(object, &patch), expected);
    }

    #[test]
    fn ports_of_containers_and_of_services_have_different_keys() {
        let of = |key: &str, old: u16, new: u16| {
            let list = |port: u16| json!({ "ports": [{ key: port, "name": "p" }] });
            patched(list(old), &list(new))["ports"].as_array().unwrap().len()
        };
        assert_eq!((of("containerPort", 80, 81), of("containerPort", 80, 80)), (2, 1));
        assert_eq!((of("port", 80, 81), of("port", 80, 80)), (2, 1));
    }
}
