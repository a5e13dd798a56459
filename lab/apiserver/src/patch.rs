// SPDX-License-Identifier: Apache-2.0
//! Patches, as the real server applies them: `json_patch` (RFC 6902), merge (RFC 7386), and `strategic` ones, which it refuses for kinds that a
//! definition brings.

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::json_patch;
use crate::strategic;

/// Type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`: see `strategic`.
    Strategic,
    /// `application/apply-patch+yaml`: see `apply`.
    Apply,
}

impl PatchKind {
    /// From a `Content-Type`.
    ///
    /// # Errors
    /// [`ApiError::PatchType`] for any other.
    pub fn of(content_type: &str) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(ApiError::PatchType),
        }
    }
}

/// The object after the patch; one that applies is merged like any other here, whoever its manager is.
///
/// # Errors
/// [`ApiError::BadRequest`] for a patch that cannot be read or takes the metadata away, [`ApiError::Rejected`] for a JSON
/// patch that does not fit the object (a failed `test`, a path that is not there).
pub fn patched(object: &Value, patch: &Value, kind: PatchKind) -> Result<Value, ApiError> {
    if kind != PatchKind::Json && !patch.is_object() {
        return Err(ApiError::BadRequest("a patch must be an object".to_owned()));
    }
    let mut result = object.clone();
    match kind {
        PatchKind::Json => json_patch::apply(&mut result, patch)?,
        PatchKind::Merge | PatchKind::Apply => merge(&mut result, patch),
        PatchKind::Strategic => strategic::merge(&mut result, patch),
    }
    if !result["metadata"].is_object() {
        return Err(ApiError::BadRequest("metadata must be an object".to_owned()));
    }
    Ok(result)
}

/// RFC 7386.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let target = as_map(target);
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// A value as a map; any other value becomes an empty one.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map"),
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
    fn what_is_no_patch_is_refused() {
        let object = json!({"metadata": {}});
        assert!(patched(&object, &json!([]), PatchKind::Merge).is_err());
        assert!(patched(&object, &json!({}), PatchKind::Json).is_err());
        assert!(patched(&object, &json!({"metadata": "x"}), PatchKind::Merge).is_err());
        assert!(PatchKind::of("application/json").is_err());
    }
}
