// SPDX-License-Identifier: Apache-2.0
//! Label and field selectors, as the API server would evaluate them. The agent watches all pods of its node once, for the plugin's
//! questions and for repair, so repair's own selectors are evaluated here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Malformed selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector {0:?} cannot be read")]
pub struct BadSelector(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    /// `>`: both are integers, and the label's is greater.
    Above(i64),
    /// `<`: both are integers, and the label's is less.
    Below(i64),
}

/// `Requirement` of the API's libraries, for a label or a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
}

/// Label and field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selectors {
    pub labels: Vec<Requirement>,
    pub fields: Vec<Requirement>,
}

impl Selectors {
    /// True if a pod with these labels and [`FIELDS`] matches.
    #[must_use]
    pub fn select(&self, labels: &BTreeMap<String, String>, fields: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|one| one.holds(labels)) && self.fields.iter().all(|one| one.holds(fields))
    }
}

/// Fields that the API server supports in field selectors of pods.
pub const FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
];

impl Requirement {
    /// True if labels or fields meet it.
    #[must_use]
    pub fn holds(&self, values: &BTreeMap<String, String>) -> bool {
        let value = values.get(&self.key);
        match &self.operator {
            Operator::In(list) => value.is_some_and(|value| list.contains(value)),
            Operator::NotIn(list) => value.is_none_or(|value| !list.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Above(than) => number(value).is_some_and(|value| value > *than),
            Operator::Below(than) => number(value).is_some_and(|value| value < *than),
        }
    }
}

fn number(value: Option<&String>) -> Option<i64> {
    value?.parse().ok()
}

/// Reads a label selector.
///
/// # Errors
/// The API server would not take it.
pub fn labels(text: &str) -> Result<Vec<Requirement>, BadSelector> {
    requirements(text)
}

/// Reads a field selector.
///
/// # Errors
/// The API server would not take it, or knows no such field of pods.
pub fn fields(text: &str) -> Result<Vec<Requirement>, BadSelector> {
    let fields = requirements(text)?;
    let known = |one: &Requirement| {
        FIELDS.contains(&one.key.as_str()) && matches!(one.operator, Operator::In(_) | Operator::NotIn(_))
    };
    match fields.iter().find(|one| !known(one)) {
        Some(unknown) => Err(BadSelector(unknown.key.clone())),
        None => Ok(fields),
    }
}

/// Reads a `LabelSelector` of the API; `null` selects everything.
///
/// # Errors
/// An operator that does not exist, or other than an object.
pub fn of_object(selector: &Value) -> Result<Vec<Requirement>, BadSelector> {
    let bad = || BadSelector(selector.to_string());
    let raw: Option<LabelSelector> = serde_json::from_value(selector.clone()).map_err(|_| bad())?;
    let LabelSelector { match_labels, match_expressions } = raw.unwrap_or_default();
    let labels = match_labels.into_iter();
    let labels = labels.map(|(key, value)| Ok(Requirement { key, operator: Operator::In(vec![value]) }));
    let expressions = match_expressions.into_iter().map(|LabelExpression { key, operator, values }| {
        let operator = match operator.as_str() {
            "In" => Operator::In(values),
            "NotIn" => Operator::NotIn(values),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::Absent,
            _ => return Err(bad()),
        };
        Ok(Requirement { key, operator })
    });
    labels.chain(expressions).collect()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<LabelExpression>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelExpression {
    key: String,
    operator: String,
    values: Vec<String>,
}

fn requirements(text: &str) -> Result<Vec<Requirement>, BadSelector> {
    parts(text).into_iter().filter(|part| !part.is_empty()).map(requirement).collect()
}

fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|letter| {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, BadSelector> {
    let bad = || BadSelector(text.to_owned());
    let one = |key: &str, operator| {
        let key = key.trim();
        let is_key = !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        is_key.then(|| Requirement { key: key.to_owned(), operator }).ok_or_else(bad)
    };
    let value = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, other)) = text.split_once("!=") {
        return one(key, Operator::NotIn(value(other)));
    }
    if let Some((key, same)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return one(key, Operator::In(value(same)));
    }
    if let Some((key, than)) = text.split_once('>') {
        return one(key, Operator::Above(than.trim().parse().map_err(|_| bad())?));
    }
    if let Some((key, than)) = text.split_once('<') {
        return one(key, Operator::Below(than.trim().parse().map_err(|_| bad())?));
    }
    if let Some(key) = text.strip_prefix('!') {
        return one(key, Operator::Absent);
    }
    let Some((head, list)) = text.split_once('(') else { return one(text, Operator::Exists) };
    let list = list.strip_suffix(')').ok_or_else(bad)?;
    let list = list.split(',').map(|value| value.trim().to_owned()).collect();
    match head.split_whitespace().collect::<Vec<_>>()[..] {
        [key, "in"] => one(key, Operator::In(list)),
        [key, "notin"] => one(key, Operator::NotIn(list)),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn selectors_of_objects_select_as_the_api_server_does() {
        let labels = map(&[("app", "cart"), ("tier", "front")]);
        for (selector, selects) in [
            (serde_json::json!(null), true),
            (serde_json::json!({}), true),
            (serde_json::json!({"matchLabels": {"app": "cart"}}), true),
            (serde_json::json!({"matchLabels": {"app": "till"}}), false),
            (
                serde_json::json!({"matchLabels": {"app": "cart"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
            (
                serde_json::json!({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["x"]}]}),
                true,
            ),
            (serde_json::json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
        ] {
            let read = of_object(&selector).unwrap();
            assert_eq!(read.iter().all(|one| one.holds(&labels)), selects, "{selector}");
        }
        for bad in [
            serde_json::json!("app=cart"),
            serde_json::json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
        ] {
            assert!(of_object(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn selectors_select_as_the_api_server_does() {
        let of_pod = map(&[("app", "cart"), ("tier", "front"), ("wave", "7")]);
        let its = map(&[
            ("metadata.namespace", "shop"),
            ("spec.hostNetwork", "false"),
            ("spec.schedulerName", "default-scheduler"),
            ("spec.serviceAccountName", "till"),
            ("status.nominatedNodeName", ""),
            ("status.phase", "Pending"),
        ]);
        for (labels, fields, selects) in [
            ("", "", true),
            ("app=cart", "", true),
            ("app == cart, tier", "", true),
            ("app!=cart", "", false),
            ("other!=x", "", true),
            ("app in (till, cart),tier notin (back)", "", true),
            ("app notin (till, cart)", "", false),
            ("!app", "", false),
            ("!other", "", true),
            ("other", "", false),
            ("", "metadata.namespace=shop,status.phase!=Running", true),
            ("", "metadata.namespace!=shop", false),
            ("wave > 6, wave < 8", "", true),
            ("wave>7", "", false),
            ("wave<7", "", false),
            ("app>1", "", false),
            ("other<1", "", false),
            ("", "spec.serviceAccountName=till,spec.schedulerName==default-scheduler", true),
            ("", "spec.hostNetwork=false,status.nominatedNodeName=", true),
            ("", "spec.hostNetwork=true", false),
        ] {
            let read =
                Selectors { labels: super::labels(labels).unwrap(), fields: super::fields(fields).unwrap() };
            assert_eq!(read.select(&of_pod, &its), selects, "{labels:?} {fields:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (labels, fields) in [
            ("app in (x", ""),
            ("a b", ""),
            ("=x", ""),
            ("a>b", ""),
            ("", "spec.volumes=x"),
            ("", "status.phase"),
            ("", "spec.nodeName>1"),
        ] {
            assert!(
                super::labels(labels).is_err() || super::fields(fields).is_err(),
                "{labels:?} {fields:?}"
            );
        }
    }
}
