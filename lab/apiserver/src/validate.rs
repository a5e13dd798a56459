// SPDX-License-Identifier: Apache-2.0
//! Validation of objects, where the rest of the server relies on them: pure.

use serde_json::Value;

use crate::causes::Causes;
use crate::error::ApiError;
use crate::kinds::{self, Backing, KINDS, Scope};
use crate::store::Key;
use crate::{admission, fields, roles, workloads};

/// Rejects an object that the rest of the server could not go by.
pub(crate) fn check(key: &Key, old: Option<&Value>, object: &Value) -> Result<(), ApiError> {
    if key.kind.name == "Event" && old.is_none() {
        check_event(key, object)?;
    }
    let wrong = fields::mistakes(key.kind.name, key.kind.group, &key.name, old, object);
    if !wrong.is_empty() {
        return Err(ApiError::Invalid { kind: key.kind, name: key.name.clone(), why: Causes(wrong) });
    }
    check_definition(key, object)?;
    admission::check(key, object)?;
    workloads::check(key.kind.name, object).map_err(|why| ApiError::Invalid {
        kind: key.kind,
        name: key.name.clone(),
        why: why.into(),
    })?;
    roles::check(key, old, object)
}

/// An event lives in the namespace of what it is about; one about the cluster in `default` or `kube-system`.
fn check_event(key: &Key, event: &Value) -> Result<(), ApiError> {
    let about = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let fits = match about {
        "" => ["default", "kube-system"].contains(&key.namespace.as_str()),
        namespace => namespace == key.namespace,
    };
    if fits {
        return Ok(());
    }
    let why = format!("involvedObject.namespace: Invalid value: \"{about}\": does not match event.namespace");
    Err(ApiError::Invalid { kind: key.kind, name: key.name.clone(), why: why.into() })
}

/// Rejects a definition of an unknown kind, or under another name; other objects pass.
fn check_definition(key: &Key, object: &Value) -> Result<(), ApiError> {
    if *key.kind != kinds::DEFINITION {
        return Ok(());
    }
    let spec = &object["spec"];
    let known = KINDS.iter().filter(|kind| kind.backing == Backing::Definition).find(|kind| {
        let scope = if kind.scope == Scope::Cluster { "Cluster" } else { "Namespaced" };
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        spec["group"] == kind.group
            && spec["names"]["plural"] == kind.plural
            && spec["names"]["kind"] == kind.name
            && spec["scope"] == scope
            && versions.any(|version| version["name"] == kind.version && version["served"] == true)
    });
    if known.is_some_and(|kind| kind.qualified() == key.name) {
        return Ok(());
    }
    let why = "spec: its group, names, scope and served version are of no kind in this server's table";
    Err(ApiError::Invalid { kind: key.kind, name: key.name.clone(), why: why.to_owned().into() })
}
