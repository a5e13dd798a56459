// SPDX-License-Identifier: Apache-2.0
//! Objects round-trip through the API server, as far as tools compare them that apply objects again and again (Argo CD, Flux): they ignore
//! fields that a server adds to maps, but compare a list whose entries have no key as a whole. And a server drops empty fields.

use serde_json::Value;

use crate::{cases, differ};

/// Entries of lists that have no key, by the field that the list is, and what the API server adds to each of them that lacks it
/// (`pkg/apis/*/v1/defaults.go` of Kubernetes 1.34, for the fields that are rendered).
const ADDED: [(&str, &str); 2] = [("resourceRules", "scope"), ("ports", "protocol")];

/// Where something empty means something and is kept: every peer, the core group, texts of an operator.
const MEANT: [&str; 4] = ["egress", "apiGroups", "data", "labels"];

/// Each object of each rendering round-trips.
pub(crate) fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    for rendering in cases::product().iter().chain(&cases::single()) {
        for object in rendering.ours()? {
            let mut lines = Vec::new();
            walk("", &object, &mut lines);
            let name = format!("{} {}", rendering.name, differ::key(&object));
            wrong.extend(lines.into_iter().map(|line| format!("{name}: {line}")));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn walk(at: &str, value: &Value, wrong: &mut Vec<String>) {
    let field = at.rsplit('.').next().unwrap_or_default();
    if MEANT.contains(&field) {
        return;
    }
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| walk(&format!("{at}.{key}"), value, wrong));
        }
        Value::Array(list) if !list.is_empty() => {
            let added = ADDED.iter().filter(|(of, _)| *of == field);
            for (_, key) in added.filter(|(_, key)| list.iter().any(|entry| entry[*key].is_null())) {
                wrong.push(format!("{at}: the API server adds {key}"));
            }
            list.iter().enumerate().for_each(|(index, value)| walk(&format!("{at}.{index}"), value, wrong));
        }
        Value::Null | Value::Object(_) | Value::Array(_) => wrong.push(format!("{at}: {value} is not kept")),
        Value::String(text) if text.is_empty() => wrong.push(format!("{at}: an empty text is not kept")),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => {}
    }
}
