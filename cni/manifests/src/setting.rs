// SPDX-License-Identifier: Apache-2.0
//! A row of the table of settings.

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
    PodSelectors,
    /// Values of another chart: accepted, so that one file can serve both, and not read.
    Elsewhere,
    /// A whole number; nothing is 0. This and the following ones are the agent's alone.
    Number,
    /// A port; none if it is 0, negative or nothing.
    Port,
    /// A template of the plugin's entry, as JSON.
    Template,
    /// `SCOPE:LEVEL,…`
    Levels,
    /// A label selector of the API, as text.
    LabelSelector,
    /// A field selector of the API, as text.
    FieldSelector,
}

/// The sources that may set an agent's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A flag, the watched `ConfigMap`, the environment.
    Anyone,
    /// Flag or environment: names of the process itself.
    Start,
    /// Environment alone: facts of the cluster about this pod.
    Environment,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakesEffect {
    /// At once.
    Live,
    /// With another pod whose template says it. The `ConfigMap` is not believed: a change of it alone must not open the credentials, skip TLS or uninstall.
    Template,
    /// With another pod: the value belongs with the volumes that the pod was made with, and a `ConfigMap` that changes before the DaemonSet rolls
    /// would pair it with the former ones.
    Mount,
    /// With another pod: the process has bound itself to the value.
    Pod,
    /// Never, as nothing reads it: it is accepted because upstream has it.
    Unread,
}

/// When the chart writes a key to the `ConfigMap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rendered {
    Always,
    /// If the value is not empty.
    WhenSet,
    /// Never by the table: it follows from several values, or the chart has none.
    No,
}

/// A setting: a value of the chart, a key of the agent, or both.
#[derive(Debug)]
pub struct Setting {
    /// The chart's value: its keys, joined by dots; empty where the chart has none.
    pub path: &'static str,
    /// The agent's flag; empty where the agent has none. The variable and the key of the `ConfigMap` are the same in capitals.
    pub name: &'static str,
    /// A second spelling of the variable; the first one wins.
    pub spelling: Option<&'static str>,
    pub kind: Kind,
    /// The chart's default: the word itself for what is text, else JSON.
    pub value_default: &'static str,
    /// The agent's default, where neither flag, `ConfigMap` nor environment has the key.
    pub default: &'static str,
    /// The sources that may set the key.
    pub from: From,
    /// When a change takes effect.
    pub change: TakesEffect,
    /// When the chart writes the key to the `ConfigMap`.
    pub rendered: Rendered,
    /// Help, for both.
    pub help: &'static str,
}

/// Rows are identified by their names: the agent's key and the chart's value.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.path) == (other.name, other.path)
    }
}

impl Eq for Setting {}

impl PartialOrd for Setting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Setting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.name, self.path).cmp(&(other.name, other.path))
    }
}

impl Kind {
    /// True if it is a string in YAML.
    #[must_use]
    pub fn is_text(self) -> bool {
        !matches!(
            self,
            Self::Bool
                | Self::Count
                | Self::Texts
                | Self::TextMap
                | Self::Open
                | Self::OpenList
                | Self::PodSelectors
                | Self::Elsewhere
        )
    }

    /// Description of permitted values.
    #[must_use]
    pub fn wanted(self) -> String {
        match self {
            Self::Text
            | Self::Number
            | Self::Port
            | Self::Template
            | Self::Levels
            | Self::LabelSelector
            | Self::FieldSelector => "a text".to_owned(),
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
            Self::TextMap => "a map of texts".to_owned(),
            Self::Open | Self::Elsewhere => "a map".to_owned(),
            Self::OpenList => "a list of maps".to_owned(),
            Self::PodSelectors => "a list of {name, namespace, selector}, all of them texts".to_owned(),
        }
    }

    /// True if it may hold the value.
    #[must_use]
    pub fn holds(self, value: &Value) -> bool {
        let text = || value.as_str().unwrap_or_default();
        match self {
            Self::Text
            | Self::Number
            | Self::Port
            | Self::Template
            | Self::Levels
            | Self::LabelSelector
            | Self::FieldSelector => value.is_string(),
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
            Self::TextMap => value.as_object().is_some_and(|map| {
                map.values().all(|value| !value.is_array() && !value.is_object() && !value.is_null())
            }),
            Self::Open | Self::Elsewhere => value.is_object(),
            Self::OpenList => value.as_array().is_some_and(|list| list.iter().all(Value::is_object)),
            Self::PodSelectors => value.as_array().is_some_and(|list| list.iter().all(is_selector)),
        }
    }
}

/// The keys of an entry of [`Kind::PodSelectors`].
pub const SELECTOR_KEYS: [&str; 3] = ["name", "namespace", "selector"];

fn is_selector(value: &Value) -> bool {
    value.as_object().is_some_and(|map| {
        map.iter().all(|(key, value)| SELECTOR_KEYS.contains(&key.as_str()) && value.is_string())
            && map.contains_key("selector")
    })
}

impl Setting {
    /// A row with neither value nor key yet.
    pub(crate) const fn new(kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self {
            path: "",
            name: "",
            spelling: None,
            kind,
            value_default: default,
            default,
            from: From::Anyone,
            change: TakesEffect::Live,
            rendered: Rendered::No,
            help,
        }
    }

    pub(crate) const fn flag(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(crate) const fn spelled(self, spelling: &'static str) -> Self {
        Self { spelling: Some(spelling), ..self }
    }

    /// The agent's default differs from the chart's.
    pub(crate) const fn starts(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    pub(crate) const fn mounted(self) -> Self {
        Self { change: TakesEffect::Mount, ..self }
    }

    pub(crate) const fn pod(self) -> Self {
        Self { change: TakesEffect::Pod, ..self }
    }

    pub(crate) const fn of_template(self) -> Self {
        Self { change: TakesEffect::Template, ..self }
    }

    pub(crate) const fn unread(self) -> Self {
        Self { change: TakesEffect::Unread, ..self }
    }

    pub(crate) const fn at_start(self) -> Self {
        Self { from: From::Start, change: TakesEffect::Pod, ..self }
    }

    pub(crate) const fn only_environment(self) -> Self {
        Self { from: From::Environment, change: TakesEffect::Pod, ..self }
    }

    pub(crate) const fn in_config_map(self) -> Self {
        Self { rendered: Rendered::Always, ..self }
    }

    pub(crate) const fn in_config_map_when_set(self) -> Self {
        Self { rendered: Rendered::WhenSet, ..self }
    }

    /// The variable, also a key of the `ConfigMap`, in each spelling; the one that counts first.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        std::iter::once(self.variable()).chain(self.spelling.map(str::to_owned))
    }

    /// The variable, also a key of the `ConfigMap`.
    #[must_use]
    pub fn variable(&self) -> String {
        self.name.to_ascii_uppercase().replace('-', "_")
    }

    /// The chart's default as a value; null for what is not read.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Elsewhere => Value::Null,
            kind if kind.is_text() => self.value_default.into(),
            _ => serde_json::from_str(self.value_default).unwrap_or_default(),
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
            (Kind::TextMap, json!({"a": "1", "b": 2, "c": true}), json!({"a": [1]})),
            (Kind::Open, json!({"a": [1]}), json!([1])),
            (Kind::OpenList, json!([{}]), json!(["a"])),
            (Kind::PodSelectors, json!([{"name": "a", "selector": "b=c"}]), json!([{"name": "a"}])),
            (Kind::PodSelectors, json!([]), json!([{"selector": "a", "labels": "b"}])),
        ];
        for (kind, good, bad) in table {
            assert!(kind.holds(&good), "{kind:?} {good}");
            assert!(!kind.holds(&bad), "{kind:?} {bad}");
        }
    }
}
