// SPDX-License-Identifier: Apache-2.0
//! Patches. All three kinds are merged as JSON merge patches (RFC 7386): maps are merged, `null` removes, lists are
//! replaced whole. For a strategic merge patch this differs from the real server where a list is merged by key; one that
//! carries directives (`$patch`, `$setElementOrder/…`) is refused, because merging it would lose what it meant to keep.

use serde_json::Value;

use crate::error::ApiError;

/// How a patch was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/apply-patch+yaml` (JSON only): merges, and creates what is not there. Field managers are not tracked.
    Apply,
}

impl PatchKind {
    /// From a `Content-Type`.
    ///
    /// # Errors
    /// [`ApiError::MediaType`] for any other (JSON patch included).
    pub fn of(content_type: &str) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            other => Err(ApiError::MediaType(other.to_owned())),
        }
    }
}

/// The object after the patch.
///
/// # Errors
/// [`ApiError::BadRequest`] for a patch that is not an object, has strategic directives or takes the metadata away.
pub fn patched(object: &Value, patch: &Value, kind: PatchKind) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::BadRequest("a patch must be an object".to_owned()));
    }
    if kind == PatchKind::Strategic && has_directive(patch) {
        return Err(ApiError::BadRequest("strategic merge directives are not supported".to_owned()));
    }
    let mut result = object.clone();
    merge(&mut result, patch);
    if !result["metadata"].is_object() {
        return Err(ApiError::BadRequest("metadata must be an object".to_owned()));
    }
    Ok(result)
}

fn has_directive(patch: &Value) -> bool {
    match patch {
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || has_directive(value)),
        Value::Array(list) => list.iter().any(has_directive),
        _ => false,
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PatchKind, patched};

    #[test]
    fn maps_merge_null_removes_and_lists_are_replaced() {
        let object = json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "metadata": {}});
        let patch = json!({"a": {"c": [3], "e": {"f": null, "g": 1}}, "d": null});
        let result = patched(&object, &patch, PatchKind::Merge).unwrap();
        assert_eq!(result, json!({"a": {"b": 1, "c": [3], "e": {"g": 1}}, "metadata": {}}));
    }

    #[test]
    fn strategic_directives_are_refused_not_stored() {
        let patch = json!({"spec": {"$setElementOrder/containers": []}});
        let object = json!({"metadata": {}});
        assert!(patched(&object, &patch, PatchKind::Strategic).is_err());
        assert!(patched(&object, &patch, PatchKind::Merge).is_ok());
        assert!(patched(&object, &json!([]), PatchKind::Merge).is_err());
        assert!(patched(&object, &json!({"metadata": "x"}), PatchKind::Merge).is_err());
        assert!(PatchKind::of("application/json-patch+json").is_err());
    }
}
