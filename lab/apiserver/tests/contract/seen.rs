// SPDX-License-Identifier: Apache-2.0
//! Answers made comparable: placeholders stand for values that no two servers share.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Fields of which only it counts that they are there.
const VOLATILE: [&str; 11] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "expirationTimestamp",
    "lastTransitionTime",
    "time",
    "continue",
    "token",
    "iat",
    "evictionTime",
];
/// Shorter kept values may be parts of other words.
const TELLING: usize = 8;

/// Variables of a case, by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// Fields of an object by their paths.
pub(crate) fn fields(object: &Value, paths: &[String], known: &Variables) -> Value {
    let found: Map<String, Value> =
        paths.iter().map(|path| (path.clone(), shown(&at(object, path), last(path), known))).collect();
    found.into()
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The field at a path: `spec/containers/*/name`, `items/0`; empty for the whole.
pub(crate) fn at(object: &Value, path: &str) -> Value {
    let Some((first, rest)) = path.split_once('/').or((!path.is_empty()).then_some((path, ""))) else {
        return object.clone();
    };
    match object {
        Value::Array(items) if first == "*" => items.iter().map(|item| at(item, rest)).collect(),
        Value::Array(items) => first
            .parse::<usize>()
            .ok()
            .and_then(|place| items.get(place))
            .map_or(Value::Null, |item| at(item, rest)),
        _ => at(object.get(first.replace("~1", "/")).unwrap_or(&Value::Null), rest),
    }
}

/// A `Status` without what every one has.
pub(crate) fn status(body: &Value, known: &Variables) -> Value {
    let kept = ["status", "reason", "message", "details"];
    let found = kept.iter().filter(|field| !body[**field].is_null());
    found.map(|field| ((*field).to_owned(), shown(&body[*field], field, known))).collect::<Map<_, _>>().into()
}

fn shown(value: &Value, name: &str, known: &Variables) -> Value {
    match value {
        Value::String(text) if VOLATILE.contains(&name) && !["", "0"].contains(&text.as_str()) => {
            json!(format!("<{name}>"))
        }
        Value::String(text) => json!(words(text, known)),
        Value::Array(items) => items.iter().map(|item| shown(item, name, known)).collect(),
        Value::Object(map) => {
            let mut map: Map<_, _> =
                map.iter().map(|(name, value)| (words(name, known), shown(value, name, known))).collect();
            if let (Some(prefix), Some(whole)) =
                (map.get("generateName").and_then(Value::as_str), value["name"].as_str())
                && let Some(suffix) = whole.strip_prefix(prefix)
            {
                map["name"] = json!(format!("{prefix}{}", "?".repeat(suffix.len())));
            }
            map.into()
        }
        other => other.clone(),
    }
}

/// A text with words of one server alone replaced.
fn words(text: &str, known: &Variables) -> String {
    // A refused update of a pod ends with a diff by go-cmp, whose white space is random on purpose.
    let mut text = text.split("\n@@ ").next().unwrap_or_default().to_owned();
    for (name, value) in known.iter().filter(|(_, value)| value.len() >= TELLING) {
        text = text.replace(value, &format!("<{name}>"));
    }
    let versions = ["esource version", "esourceVersion"].iter().any(|words| text.contains(words));
    let mut out = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(match word {
            word if is_uid(word) => "<uid>",
            word if is_time(word) => "<time>",
            word if versions && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) => {
                "<version>"
            }
            word => word,
        });
        let next = after.find(is_part).unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn is_uid(word: &str) -> bool {
    let parts: Vec<usize> = word.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn is_time(word: &str) -> bool {
    word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T' && word.starts_with("20")
}
