// SPDX-License-Identifier: Apache-2.0
//! A pod that declares one of the containers that are added: what it says of it outranks the mesh, and whoever programs or checks the rules must
//! know the identity of the proxy that results.

use serde_json::{Value, json};

use crate::config::Mode;
use crate::containers::VALIDATION;

/// Image of a declared container that has to be there and means nothing.
const AUTO: &str = "auto";

/// Removes a declared container from a list.
pub(crate) fn take(containers: &mut Vec<Value>, name: &Value) -> Option<Value> {
    let at = containers.iter().position(|container| container["name"] == *name)?;
    let mut declared = containers.remove(at);
    if declared["image"] == AUTO
        && let Some(fields) = declared.as_object_mut()
    {
        fields.remove("image");
    }
    Some(declared)
}

/// Lays `own` over `base`: objects field by field, lists of named things by name, everything else as a whole.
pub(crate) fn overlay(base: &mut Value, own: &Value) {
    match (base, own) {
        (Value::Object(base), Value::Object(own)) => {
            for (key, value) in own {
                overlay(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(own)) if own.iter().all(|one| one["name"].is_string()) => {
            for one in own {
                match base.iter_mut().find(|known| known["name"] == one["name"]) {
                    Some(known) => overlay(known, one),
                    None => base.push(one.clone()),
                }
            }
        }
        (base, own) => *base = own.clone(),
    }
}

/// Tells the identity of the declared proxy to the container that programs or checks the rules.
pub(crate) fn adjust(declared: &Value, mode: Mode, first: Option<&mut Value>, proxy: &mut Value) {
    let context = &declared["securityContext"];
    let (user, group) = (&context["runAsUser"], &context["runAsGroup"]);
    let Some(first) = first.filter(|_| !(user.is_null() && group.is_null())) else { return };
    if mode == Mode::Tproxy {
        proxy["securityContext"]["runAsUser"] = json!(0);
    } else if first["name"] == VALIDATION {
        for (key, value) in [("runAsUser", user), ("runAsGroup", group)] {
            if !value.is_null() {
                first["securityContext"][key] = value.clone();
            }
        }
    }
    let Some(user) = user.as_i64().filter(|user| *user != 0) else { return };
    let args = first["args"].as_array_mut().map(|args| args.iter_mut());
    if let Some(named) = args.and_then(|mut args| args.find(|arg| **arg == "-u").and_then(|_| args.next())) {
        *named = json!(user.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_says_outranks_the_mesh_field_by_field() {
        let mut base = json!({ "args": ["proxy"], "env": [{ "name": "A", "value": "1" }], "securityContext": { "runAsUser": 1337, "privileged": false } });
        overlay(
            &mut base,
            &json!({ "args": ["x", "y"], "env": [{ "name": "B" }, { "name": "A", "value": "2" }], "securityContext": { "runAsUser": 5 } }),
        );
        let wanted = json!({ "args": ["x", "y"], "env": [{ "name": "A", "value": "2" }, { "name": "B" }], "securityContext": { "runAsUser": 5, "privileged": false } });
        assert_eq!(base, wanted);
    }
}
