// SPDX-License-Identifier: Apache-2.0
//! Details of a `metav1.Status`: what it is about, and the causes that its message is made of. Pure.

use std::fmt;

use serde_json::{Map, Value, json};

/// Mistakes of an object or of parameters, each beginning with its field: `spec.x: Required value: why`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Causes(pub Vec<String>);

impl From<String> for Causes {
    fn from(one: String) -> Self {
        Self(vec![one])
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A mistake that is found twice is a cause each time, and named once.
        let mut all: Vec<&str> = Vec::new();
        for one in &self.0 {
            if !all.contains(&one.as_str()) {
                all.push(one);
            }
        }
        match all.as_slice() {
            [one] => out.write_str(one),
            many => write!(out, "[{}]", many.join(", ")),
        }
    }
}

impl Causes {
    pub(crate) fn status(&self) -> Value {
        self.0.iter().map(|one| cause(one)).collect()
    }
}

/// Words of a mistake and the reason that they stand for (`apimachinery/pkg/util/validation/field`).
const MISTAKES: [(&str, &str); 9] = [
    ("Required value", "FieldValueRequired"),
    ("Invalid value", "FieldValueInvalid"),
    ("Unsupported value", "FieldValueNotSupported"),
    ("Duplicate value", "FieldValueDuplicate"),
    ("Forbidden", "FieldValueForbidden"),
    ("Not found", "FieldValueNotFound"),
    ("Too long", "FieldValueTooLong"),
    ("Too many", "FieldValueTooMany"),
    ("Internal error", "InternalError"),
];

fn cause(one: &str) -> Value {
    let (field, message) = one.split_once(": ").unwrap_or(("", one));
    let known = MISTAKES.iter().find(|(words, _)| message.starts_with(words));
    let reason = known.map_or("FieldValueInvalid", |(_, reason)| reason);
    json!({"reason": reason, "message": message, "field": field})
}

pub(crate) fn disputed((manager, field): &(String, String)) -> Value {
    json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": field})
}

/// Conflicts by manager.
pub(crate) fn conflicts(fields: &[(String, String)]) -> String {
    if let [(manager, field)] = fields {
        return format!("1 conflict: conflict with {manager}: {field}");
    }
    let mut text = format!("{} conflicts:", fields.len());
    for (place, (manager, field)) in fields.iter().enumerate() {
        if place == 0 || fields[place - 1].0 != *manager {
            let gap = if place == 0 { " " } else { "\n" };
            text += &format!("{gap}conflicts with {manager}:");
        }
        text += &format!("\n- {field}");
    }
    text
}

/// Details of a status about an object; what is empty is not sent.
pub(crate) fn about(name: &str, group: &str, kind: &str) -> Value {
    let given =
        [("name", name), ("group", group), ("kind", kind)].into_iter().filter(|(_, text)| !text.is_empty());
    given.map(|(field, text)| (field.to_owned(), json!(text))).collect::<Map<_, _>>().into()
}
