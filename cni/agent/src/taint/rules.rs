// SPDX-License-Identifier: Apache-2.0
//! Required pods of a node: rules, each of which needs a ready pod there. Read from the `ConfigMap` of the older controller: under each key
//! of its data a YAML list of `{name, namespace, selector}`.

use std::collections::BTreeMap;
use std::fmt;

use manifests::document::first_line;
use serde::Deserialize;

use crate::selector;

/// Rule of required pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name, for messages.
    pub name: String,
    /// Namespace of the pods; empty for all.
    pub namespace: String,
    /// Label selector.
    pub labels: String,
    /// Field selector.
    pub fields: String,
}

/// Name, namespace, selector.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = if self.namespace.is_empty() { "every namespace" } else { &self.namespace };
        write!(f, "{:?} ({} in {namespace})", self.name, self.labels)
    }
}

/// Malformed `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not a list of entries.
    #[error(
        "failed to read key {key:?} of the ConfigMap: it is no YAML list of {{name, namespace, selector}}: {why}; it says {value:?}"
    )]
    Yaml {
        key: String,
        /// Error of the YAML parser.
        why: String,
        /// The value, truncated.
        value: String,
    },
    #[error(
        "failed to read key {key:?} of the ConfigMap: selector {selector:?} of entry {name:?} is none: expected label=value, label!=value, label in (a, b), label notin (a, b), label or !label, by comma"
    )]
    Selector { key: String, name: String, selector: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    selector: String,
}

/// Maximum length of a value in messages.
const SHOWN: usize = 200;

/// The rules in the data of a `ConfigMap`, in the order of its keys.
///
/// # Errors
/// The first key that cannot be read.
pub fn read(data: &BTreeMap<String, String>) -> Result<Vec<Rule>, RuleError> {
    let mut rules = Vec::new();
    for (key, text) in data {
        let entries: Option<Vec<Entry>> = match serde_saphyr::from_str(text) {
            Ok(entries) => entries,
            Err(error) => {
                let why = first_line(&error);
                let value = text.chars().take(SHOWN).collect();
                return Err(RuleError::Yaml { key: key.clone(), why, value });
            }
        };
        for Entry { name, namespace, selector } in entries.unwrap_or_default() {
            // An empty one would mean every pod, which nobody means.
            if selector.trim().is_empty() || selector::labels(&selector).is_err() {
                return Err(RuleError::Selector { key: key.clone(), name, selector });
            }
            rules.push(Rule { name, namespace, labels: selector, fields: String::new() });
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Vec<Rule>, RuleError> {
        read(&pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn entries_of_every_key_count() {
        let rules = of(&[
            (
                "config",
                "- name: istio-cni\n  namespace: istio-system\n  selector: k8s-app=istio-cni-node, app\n",
            ),
            ("more", "- {name: b, selector: 'k in (x, y)'}\n"),
            ("none", ""),
        ])
        .unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].to_string(), "\"istio-cni\" (k8s-app=istio-cni-node, app in istio-system)");
        assert_eq!(rules[1].to_string(), "\"b\" (k in (x, y) in every namespace)");
        assert_eq!(of(&[]).unwrap(), []);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_key_and_value() {
        for (text, words) in [
            ("name: x", "says \"name: x\""),
            ("- [a", "YAML list"),
            ("- {name: n, selector: a, colour: red}", "colour"),
            ("- {name: n}", "selector"),
        ] {
            let error = of(&[("conf", text)]).unwrap_err().to_string();
            assert!(error.contains("key \"conf\"") && error.contains(words), "{error}");
        }
        for selector in ["a in (x", "", "a b"] {
            let error =
                of(&[("conf", &format!("- {{name: n, selector: '{selector}'}}"))]).unwrap_err().to_string();
            let words = format!("selector {selector:?} of entry \"n\"");
            assert!(error.contains("key \"conf\"") && error.contains(&words), "{error}");
        }
    }
}
