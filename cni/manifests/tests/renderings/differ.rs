// SPDX-License-Identifier: Apache-2.0
//! Where two sets of objects differ. The order of objects and keys says nothing; that of lists does.

use std::collections::BTreeMap;

use serde_json::Value;

/// Kind, namespace and name of an object.
pub(crate) fn key(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let metadata = &object["metadata"];
    format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

/// A line for each difference.
pub(crate) fn objects(first: &[Value], second: &[Value]) -> Vec<String> {
    let index =
        |objects: &[Value]| objects.iter().map(|one| (key(one), one.clone())).collect::<BTreeMap<_, _>>();
    let (mine, other) = (index(first), index(second));
    let mut lines = Vec::new();
    if mine.len() != first.len() || other.len() != second.len() {
        lines.push("an object is there twice".to_owned());
    }
    for key in mine.keys().filter(|key| !other.contains_key(*key)) {
        lines.push(format!("{key}: only the first has it"));
    }
    for (key, object) in &other {
        match mine.get(key) {
            None => lines.push(format!("{key}: only the second has it")),
            Some(own) => values(key, own, object, &mut lines),
        }
    }
    lines
}

fn values(at: &str, first: &Value, second: &Value, lines: &mut Vec<String>) {
    match (first, second) {
        (Value::Object(mine), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = mine.keys().chain(other.keys()).collect();
            for key in keys {
                let at = format!("{at}.{key}");
                match (mine.get(key), other.get(key)) {
                    (Some(one), Some(two)) => values(&at, one, two, lines),
                    (one, two) => lines.push(format!("{at}: first {one:?}, second {two:?}")),
                }
            }
        }
        (Value::Array(mine), Value::Array(other)) if mine.len() == other.len() => {
            for (index, (one, two)) in mine.iter().zip(other).enumerate() {
                values(&format!("{at}[{index}]"), one, two, lines);
            }
        }
        (mine, other) if mine == other => {}
        (mine, other) => lines.push(format!("{at}: first {mine}, second {other}")),
    }
}
