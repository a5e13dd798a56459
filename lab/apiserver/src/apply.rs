// SPDX-License-Identifier: Apache-2.0
//! Server-side apply: an object becomes what its managers want of it, and who wants which field is kept in
//! `metadata.managedFields`. Pure.
//!
//! Two things are simpler than in a real cluster: a list is one field, whatever its keys are, and only those who apply are
//! managers: a field that somebody else has updated is nobody's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::patch::merge;
use crate::store::Key;

/// Field manager, and its `force` option.
#[derive(Debug)]
pub(crate) struct Applier<'a> {
    pub(crate) manager: &'a str,
    pub(crate) force: bool,
}

/// Path of a field.
type FieldPath = Vec<String>;

/// Managed fields by manager.
type Managers = BTreeMap<String, BTreeSet<FieldPath>>;

/// The object after a manager has said what it wants of it.
///
/// # Errors
/// [`ApiError::BadRequest`] for what is no configuration of an object, [`ApiError::Conflict`] if another manager wants another
/// value.
pub(crate) fn applied(
    key: &Key,
    old: Option<&Value>,
    wanted: &Value,
    by: &Applier<'_>,
) -> Result<Value, ApiError> {
    check(key, old, wanted)?;
    let mut object = old.cloned().unwrap_or_else(|| json!({"metadata": {"name": key.name}}));
    let mut managers = managers(&object);
    let own = fields(wanted);
    let former = managers.remove(by.manager).unwrap_or_default();
    let mut conflicts = Vec::new();
    for (other, theirs) in &mut managers {
        let disputed: Vec<_> =
            theirs.intersection(&own).filter(|path| at(&object, path) != at(wanted, path)).cloned().collect();
        conflicts
            .extend(disputed.iter().map(|path| (format!("\"{other}\""), format!(".{}", path.join(".")))));
        theirs.retain(|path| !disputed.contains(path));
    }
    if !conflicts.is_empty() && !by.force {
        return Err(ApiError::Apply(conflicts));
    }
    for path in former.difference(&own) {
        if !managers.values().any(|theirs| theirs.contains(path)) {
            remove(&mut object, path);
        }
    }
    merge(&mut object, wanted);
    managers.insert(by.manager.to_owned(), own);
    object["metadata"]["managedFields"] = entries(&managers);
    Ok(object)
}

/// Rejects what is no configuration of this object.
fn check(key: &Key, old: Option<&Value>, wanted: &Value) -> Result<(), ApiError> {
    let bad = |why: String| Err(ApiError::BadRequest(why));
    if !wanted.is_object() {
        return bad("a configuration to apply must be an object".to_owned());
    }
    if wanted["metadata"].get("managedFields").is_some() {
        return bad("metadata.managedFields must be nil".to_owned());
    }
    let (version, kind) = (wanted["apiVersion"].as_str(), wanted["kind"].as_str());
    let (Some(_), Some(_)) = (version, kind) else {
        return bad(format!(
            "invalid object type: /{}, Kind={}",
            version.unwrap_or_default(),
            kind.unwrap_or_default()
        ));
    };
    if let Some(name) = wanted["metadata"]["name"].as_str().filter(|name| *name != key.name) {
        return bad(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        ));
    }
    match wanted["metadata"]["uid"].as_str().filter(|uid| old.is_none() && !uid.is_empty()) {
        Some(uid) => Err(ApiError::Conflict {
            kind: key.kind,
            name: key.name.clone(),
            why: format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        }),
        None => Ok(()),
    }
}

/// The fields that a configuration names, but for those that say which object it is.
fn fields(wanted: &Value) -> BTreeSet<FieldPath> {
    let mut found = BTreeSet::new();
    leaves(wanted, &mut Vec::new(), &mut found);
    let identity = [&["apiVersion"][..], &["kind"], &["metadata", "name"], &["metadata", "namespace"]];
    found.retain(|path| !identity.iter().any(|one| path == one));
    found
}

fn leaves(value: &Value, path: &mut FieldPath, found: &mut BTreeSet<FieldPath>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(key.clone());
                leaves(value, path, found);
                path.pop();
            }
        }
        _ => drop(found.insert(path.clone())),
    }
}

fn at<'a>(object: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// Removes a field, and parents that become empty.
fn remove(object: &mut Value, path: &[String]) {
    let (Some(map), Some((first, rest))) = (object.as_object_mut(), path.split_first()) else { return };
    if rest.is_empty() {
        map.remove(first);
    } else if let Some(inner) = map.get_mut(first) {
        remove(inner, rest);
        if inner.as_object().is_some_and(Map::is_empty) {
            map.remove(first);
        }
    }
}

fn managers(object: &Value) -> Managers {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let read = |entry: &Value| {
        let mut paths = BTreeSet::new();
        leaves(&entry["fieldsV1"], &mut Vec::new(), &mut paths);
        let bare = |path: FieldPath| {
            path.iter().map(|key| key.strip_prefix("f:").unwrap_or(key).to_owned()).collect()
        };
        (entry["manager"].as_str().unwrap_or_default().to_owned(), paths.into_iter().map(bare).collect())
    };
    entries.map(read).collect()
}

fn entries(managers: &Managers) -> Value {
    let entry = |(manager, paths): (&String, &BTreeSet<FieldPath>)| {
        let mut fields = json!({});
        for path in paths {
            let place = path.iter().fold(&mut fields, |place, key| &mut place[format!("f:{key}")]);
            *place = json!({});
        }
        json!({"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    managers.iter().filter(|(_, paths)| !paths.is_empty()).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Applier, applied};
    use crate::kinds::Kind;
    use crate::store::Key;

    fn key() -> Key {
        let kind = Kind::find("", "v1", "configmaps").unwrap();
        Key { kind, namespace: "shop".into(), name: "m".into() }
    }

    fn apply(old: Option<&Value>, data: &Value, manager: &str, force: bool) -> Result<Value, String> {
        let wanted =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        applied(&key(), old, &wanted, &Applier { manager, force }).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_manager_no_longer_wants_goes_and_what_others_wrote_stays() {
        let first = apply(None, &json!({"a": "1", "b": "2", "list": [1, 2]}), "chart", false).unwrap();
        let mut edited = first.clone();
        edited["data"]["c"] = json!("by hand");
        let second = apply(Some(&edited), &json!({"b": "3", "list": [1]}), "chart", false).unwrap();
        assert_eq!(second["data"], json!({"b": "3", "c": "by hand", "list": [1]}));
        let last = apply(Some(&first), &json!({}), "chart", false).unwrap();
        assert_eq!(last["data"], json!({}));
        let again = apply(Some(&second), &json!({"b": "3", "list": [1]}), "chart", false).unwrap();
        assert_eq!(again, second, "applied again, nothing changes");
    }

    #[test]
    fn managers_share_what_they_agree_on_and_one_takes_over_by_force_only() {
        let first = apply(None, &json!({"a": "1", "b": "2"}), "chart", false).unwrap();
        let shared = apply(Some(&first), &json!({"a": "1"}), "other", false).unwrap();
        let refused = apply(Some(&first), &json!({"a": "9"}), "other", false).unwrap_err();
        assert!(refused.contains("conflict with \"chart\": .data.a"), "{refused}");
        let left = apply(Some(&shared), &json!({"b": "2"}), "chart", false).unwrap();
        assert_eq!(left["data"], json!({"a": "1", "b": "2"}), "the other still wants it");
        let taken = apply(Some(&first), &json!({"a": "9"}), "other", true).unwrap();
        assert_eq!(taken["data"], json!({"a": "9", "b": "2"}));
        let gone = apply(Some(&taken), &json!({"b": "2"}), "chart", false).unwrap();
        assert_eq!(gone["data"]["a"], "9", "it is no longer the chart's");
    }

    #[test]
    fn keys_with_dots_are_keys() {
        let first = apply(None, &json!({"a.b/c": "1", "x": "2"}), "chart", false).unwrap();
        let second = apply(Some(&first), &json!({"x": "2"}), "chart", false).unwrap();
        assert_eq!(second["data"], json!({"x": "2"}));
    }
}
