// SPDX-License-Identifier: Apache-2.0
//! Table of values: path, kind, default, purpose. The chart's `values.yaml` and `values.schema.json` and `docs/values.md` are generated
//! from it, and an operator's values are validated by it.

use serde_json::Value;

/// Kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Absolute directory of the node.
    Directory,
    /// The same, or `""`, which is resolved by platform.
    AutoDirectory,
    /// Name of a file in a directory of another value, or `""`.
    FileName,
    /// File mode, octal with a leading 0.
    Mode,
    Bool,
    /// Non-negative integer.
    Count,
    /// Enumeration.
    OneOf(&'static [&'static str]),
    /// List of strings.
    Texts,
    /// Map of strings.
    TextMap,
    /// Kubernetes object, passed through.
    Open,
    /// List of Kubernetes objects, passed through.
    OpenList,
    /// List of `{name, namespace, selector}`.
    Selectors,
    /// Values of another chart: accepted, so that one file can serve both, and not read.
    Elsewhere,
}

/// A value of the chart.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Path with dots.
    pub path: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Default: a bare string for a text, else JSON.
    pub default: &'static str,
    pub help: &'static str,
}

impl Kind {
    /// True if it is a string in YAML.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Self::Text | Self::Directory | Self::AutoDirectory | Self::FileName | Self::Mode | Self::OneOf(_)
        )
    }

    /// Description of permitted values.
    #[must_use]
    pub fn wanted(self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Directory => "an absolute path".to_owned(),
            Self::AutoDirectory => "an absolute path, or \"\"".to_owned(),
            Self::FileName => "a file name without a directory, or \"\"".to_owned(),
            Self::Mode => "a mode in quotes, octal with a leading 0, such as \"0600\"".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::OneOf(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Texts => "a list of texts".to_owned(),
            Self::TextMap => "a map of texts (numbers and truth values in quotes)".to_owned(),
            Self::Open | Self::Elsewhere => "a map".to_owned(),
            Self::OpenList => "a list of maps".to_owned(),
            Self::Selectors => "a list of {name, namespace, selector}, all of them texts".to_owned(),
        }
    }

    /// True if it may hold the value.
    #[must_use]
    pub fn holds(self, value: &Value) -> bool {
        let text = || value.as_str().unwrap_or_default();
        match self {
            Self::Text => value.is_string(),
            Self::Directory => text().starts_with('/'),
            Self::AutoDirectory => value.is_string() && (text().is_empty() || text().starts_with('/')),
            Self::FileName => value.is_string() && !text().contains('/'),
            Self::Mode => {
                let digits = text().strip_prefix('0').unwrap_or_default();
                digits.len() == 3 && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
            }
            Self::Bool => value.is_boolean(),
            Self::Count => value.is_u64(),
            Self::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            Self::TextMap => value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
            Self::Open | Self::Elsewhere => value.is_object(),
            Self::OpenList => value.as_array().is_some_and(|list| list.iter().all(Value::is_object)),
            Self::Selectors => value.as_array().is_some_and(|list| list.iter().all(is_selector)),
        }
    }
}

/// Keys of an entry of [`Kind::Selectors`].
pub const SELECTOR_KEYS: [&str; 3] = ["name", "namespace", "selector"];

fn is_selector(value: &Value) -> bool {
    value.as_object().is_some_and(|map| {
        map.iter().all(|(key, value)| SELECTOR_KEYS.contains(&key.as_str()) && value.is_string())
            && map.contains_key("selector")
    })
}

impl Field {
    /// Default as a value; `None` for a value that is not read.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Elsewhere => Value::Null,
            kind if kind.is_text() => self.default.into(),
            _ => serde_json::from_str(self.default).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_holds_what_it_says_and_no_more() {
        let table = [
            (Kind::Text, json!("x"), json!(1)),
            (Kind::Directory, json!("/a"), json!("")),
            (Kind::AutoDirectory, json!(""), json!("a")),
            (Kind::FileName, json!("a.conf"), json!("/a.conf")),
            (Kind::Mode, json!("0640"), json!("640")),
            (Kind::Mode, json!("0600"), json!("0800")),
            (Kind::Bool, json!(false), json!("false")),
            (Kind::Count, json!(0), json!(-1)),
            (Kind::OneOf(&["", "a"]), json!(""), json!("b")),
            (Kind::Texts, json!(["a"]), json!("a")),
            (Kind::Texts, json!([]), json!([1])),
            (Kind::TextMap, json!({"a": "1"}), json!({"a": 1})),
            (Kind::Open, json!({"a": [1]}), json!([1])),
            (Kind::OpenList, json!([{}]), json!(["a"])),
            (Kind::Selectors, json!([{"name": "a", "selector": "b=c"}]), json!([{"name": "a"}])),
            (Kind::Selectors, json!([]), json!([{"selector": "a", "labels": "b"}])),
        ];
        for (kind, good, bad) in table {
            assert!(kind.holds(&good), "{kind:?} {good}");
            assert!(!kind.holds(&bad), "{kind:?} {bad}");
        }
    }
}
