// SPDX-License-Identifier: Apache-2.0
//! Strategic merge patches: as merge patches, but lists whose items have a key are merged item by item, and directives
//! (`$patch`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`, `$retainKeys`) say what a merge alone could not.

use serde_json::{Map, Value};

use super::as_map;
use crate::error::ApiError;

/// How a list is merged; one that is not in the table is replaced whole.
#[derive(Clone, Copy)]
enum Items {
    /// Maps, the same if this field is the same.
    By(&'static str),
    /// Plain values, each once.
    Plain,
}

/// The lists of the served kinds that are merged, by the name of their field. No two kinds use one name in two ways.
const MERGED: [(&str, Items); 19] = [
    ("ownerReferences", Items::By("uid")),
    ("finalizers", Items::Plain),
    ("podCIDRs", Items::Plain),
    ("containers", Items::By("name")),
    ("initContainers", Items::By("name")),
    ("ephemeralContainers", Items::By("name")),
    ("env", Items::By("name")),
    ("volumes", Items::By("name")),
    ("imagePullSecrets", Items::By("name")),
    ("schedulingGates", Items::By("name")),
    ("resourceClaims", Items::By("name")),
    ("secrets", Items::By("name")),
    ("volumeMounts", Items::By("mountPath")),
    ("volumeDevices", Items::By("devicePath")),
    ("ports", Items::By("containerPort")),
    ("topologySpreadConstraints", Items::By("topologyKey")),
    ("hostAliases", Items::By("ip")),
    ("podIPs", Items::By("ip")),
    ("hostIPs", Items::By("ip")),
];

/// Conditions of every kind and addresses of a node have a type.
const TYPED: [&str; 2] = ["conditions", "addresses"];

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

fn items_of(field: &str) -> Option<Items> {
    if TYPED.contains(&field) {
        return Some(Items::By("type"));
    }
    MERGED.iter().find(|(name, _)| *name == field).map(|(_, items)| *items)
}

fn bad(why: impl Into<String>) -> ApiError {
    ApiError::BadRequest(why.into())
}

/// Merges a patch into a value.
pub(super) fn merge(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None => {}
        Some("replace") => {
            *target = Value::Object(without_directive(patch));
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(bad(format!("Unknown patch type found: {other}"))),
    }
    let target = as_map(target);
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (value, items_of(key)) {
            (Value::Null, _) => drop(target.remove(key)),
            (Value::Array(list), Some(items)) => {
                let order = patch.get(&format!("{ORDER}{key}")).and_then(Value::as_array);
                let old = target.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                let merged = merge_list(old, list, order, items, key)?;
                target.insert(key.clone(), Value::Array(merged));
            }
            _ => merge(target.entry(key.as_str()).or_insert(Value::Null), value)?,
        }
    }
    lists_that_directives_name(target, patch);
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| retained.iter().any(|one| one == key.as_str()));
    }
    Ok(())
}

/// Deletions from lists of plain values, and orders of lists that the patch does not change otherwise.
fn lists_that_directives_name(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (directive, value) in patch {
        let Some(named) = value.as_array() else { continue };
        if let Some(Value::Array(list)) =
            directive.strip_prefix(DELETE).and_then(|field| target.get_mut(field))
        {
            list.retain(|item| !named.contains(item));
        }
        let field = directive.strip_prefix(ORDER).filter(|field| !patch.contains_key(*field));
        let items = field.and_then(items_of);
        if let (Some(items), Some(Value::Array(list))) =
            (items, field.and_then(|field| target.get_mut(field)))
        {
            let old = list.clone();
            *list = ordered(std::mem::take(list), &old, named, items);
        }
    }
}

fn merge_list(
    mut old: Vec<Value>,
    patch: &[Value],
    order: Option<&Vec<Value>>,
    items: Items,
    field: &str,
) -> Result<Vec<Value>, ApiError> {
    let before = old.clone();
    let mut wanted = Vec::new();
    let mut replace = false;
    for item in patch {
        if let Items::By(key) = items
            && item.get(key).is_none()
            && item[DIRECTIVE] != "replace"
        {
            return Err(bad(format!("map: {item} does not contain declared merge key: {key}")));
        }
        match item.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            Some("delete") => old.retain(|one| !same(one, item, items)),
            Some("replace") => replace = true,
            Some(other) => return Err(bad(format!("Unknown patch type found in {field}: {other}"))),
            None => wanted.push(item),
        }
    }
    if replace {
        return Ok(wanted.into_iter().cloned().collect());
    }
    for item in &wanted {
        match old.iter().position(|one| same(one, item, items)).and_then(|place| old.get_mut(place)) {
            Some(found) => merge(found, item)?,
            None => {
                let mut added = Value::Null;
                merge(&mut added, item)?;
                old.push(added);
            }
        }
    }
    let own: Vec<Value> = wanted.into_iter().cloned().collect();
    Ok(ordered(old, &before, order.unwrap_or(&own), items))
}

/// Orders a merged list: the items that are named come in the order of their naming; each of the others keeps its place
/// before the named ones that it was before.
fn ordered(merged: Vec<Value>, before: &[Value], named: &[Value], items: Items) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|one| same(one, item, items));
    let (mut first, rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(named, item).is_some());
    first.sort_by_key(|item| place(named, item));
    let mut result = Vec::with_capacity(first.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for item in first {
        let here = place(before, &item);
        while let Some(other) = rest.next_if(
            |other| matches!((place(before, other), here), (Some(other), Some(here)) if other < here),
        ) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(rest);
    result
}

fn same(one: &Value, other: &Value, items: Items) -> bool {
    match items {
        Items::By(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        Items::Plain => one == other,
    }
}

fn without_directive(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, _)| *key != DIRECTIVE)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::patch::{PatchKind, patched};

    /// The spec after a patch of it.
    fn spec(object: &Value, patch: &Value) -> Value {
        let object = json!({"metadata": {}, "spec": object});
        patched(&object, &json!({"spec": patch}), PatchKind::Strategic).unwrap()["spec"].clone()
    }

    fn names(list: &Value) -> String {
        list.as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap())
            .collect::<Vec<_>>()
            .join("")
    }

    #[test]
    fn containers_merge_by_name_and_their_variables_too() {
        let old = json!({"containers": [
            {"name": "a", "image": "1", "args": ["x"], "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "1"}]},
            {"name": "b", "image": "1"}]});
        let patch = json!({"containers": [
            {"name": "a", "image": "2", "args": ["y"], "env": [{"name": "K", "value": "2"}]}]});
        let new = json!({"containers": [
            {"name": "a", "image": "2", "args": ["y"], "env": [{"name": "K", "value": "2"}, {"name": "L", "value": "1"}]},
            {"name": "b", "image": "1"}]});
        assert_eq!(spec(&old, &patch), new);
    }

    #[test]
    fn tolerations_are_replaced_and_finalizers_joined() {
        let old = json!({"tolerations": [{"key": "a"}], "x": {"finalizers": ["a", "b"]}});
        let patch = json!({"tolerations": [{"key": "b"}], "x": {"finalizers": ["b", "c"]}});
        let new = json!({"tolerations": [{"key": "b"}], "x": {"finalizers": ["a", "b", "c"]}});
        assert_eq!(spec(&old, &patch), new);
    }

    #[test]
    fn an_item_that_is_new_goes_first_unless_an_order_is_given() {
        let old = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
        let added = spec(&old, &json!({"containers": [{"name": "x"}]}));
        assert_eq!(names(&added["containers"]), "xabc");
        let order = |order: &str| order.chars().map(|c| json!({"name": c.to_string()})).collect::<Vec<_>>();
        let placed =
            spec(&old, &json!({"containers": [{"name": "x"}], "$setElementOrder/containers": order("axbc")}));
        assert_eq!(names(&placed["containers"]), "axbc");
        let turned = spec(&old, &json!({"$setElementOrder/containers": order("ca")}));
        assert_eq!(names(&turned["containers"]), "bca");
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let old = json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b"}], "finalizers": ["x", "y"],
                         "m": {"a": 1, "b": 2}});
        let volumes = |patch: Value| spec(&old, &json!({"volumes": patch}))["volumes"].clone();
        assert_eq!(volumes(json!([{"name": "a", "$patch": "delete"}])), json!([{"name": "b"}]));
        assert_eq!(volumes(json!([{"$patch": "replace"}, {"name": "c"}])), json!([{"name": "c"}]));
        let moved = json!([{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]);
        assert_eq!(volumes(moved)[0], json!({"name": "a", "hostPath": {"path": "/x"}}));
        let all = json!({"$deleteFromPrimitiveList/finalizers": ["x"], "m": {"$patch": "replace", "c": 3}});
        assert_eq!(spec(&old, &all)["finalizers"], json!(["y"]));
        assert_eq!(spec(&old, &all)["m"], json!({"c": 3}));
        assert_eq!(spec(&old, &json!({"m": {"$patch": "delete"}}))["m"], json!({}));
    }

    #[test]
    fn an_item_without_its_key_and_an_unknown_directive_are_refused() {
        for patch in [json!({"containers": [{"image": "x"}]}), json!({"m": {"$patch": "invent"}})] {
            assert!(patched(&json!({"metadata": {}}), &patch, PatchKind::Strategic).is_err(), "{patch}");
        }
    }
}
