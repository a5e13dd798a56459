// SPDX-License-Identifier: Apache-2.0
//! Label and field selectors: parsed from a query, matched against an object.

use serde_json::Value;

use crate::error::ApiError;
use crate::fields::key_mistake;
use crate::kinds::Kind;

/// Filter of a list or watch. The default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        match &self.test {
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
        }
    }
}

impl Selector {
    /// Parses the `labelSelector` and `fieldSelector` of a query about `kind`.
    ///
    /// # Errors
    /// [`ApiError::BadRequest`] for bad syntax or a field that cannot be selected by.
    pub fn parse(kind: &Kind, labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = split_top(labels.unwrap_or("")).into_iter().map(label).collect::<Result<_, _>>()?;
        let fields = split_top(fields.unwrap_or("")).into_iter().map(|text| field(kind, text));
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    /// True if it matches everything.
    pub(crate) fn matches_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// True if an object matches.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.holds(labels[&requirement.key].as_str()))
            && self.fields.iter().all(|requirement| {
                let value = requirement.key.split('.').fold(object, |value, key| &value[key]);
                requirement.holds(Some(&shown(&requirement.key, value)))
            })
    }
}

/// A selector of an object (`matchLabels`, `matchExpressions`) as a query has it.
pub(crate) fn written(selector: &Value) -> String {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let exact = exact.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().filter_map(|one| {
        let values = one["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let (key, values) = (one["key"].as_str()?, values.collect::<Vec<_>>().join(","));
        Some(match one["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        })
    });
    exact.chain(expressions).collect::<Vec<_>>().join(",")
}

/// The only name that a field selector permits, if there is one.
pub(crate) fn exact_name(fields: &str) -> Option<&str> {
    split_top(fields).into_iter().find_map(|part| {
        let value = part.strip_prefix("metadata.name")?.trim_start().strip_prefix('=')?;
        let value = value.strip_prefix('=').unwrap_or(value).trim();
        (!value.is_empty()).then_some(value)
    })
}

/// A field as a selector compares it: what is not there is empty, a truth that is not there is false.
fn shown<'a>(key: &str, value: &'a Value) -> std::borrow::Cow<'a, str> {
    match value {
        Value::String(text) => text.into(),
        Value::Null if !matches!(key, "spec.hostNetwork" | "spec.unschedulable") => "".into(),
        value => value.as_bool().unwrap_or(false).to_string().into(),
    }
}

fn split_top(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn equality(text: &str) -> Option<Requirement> {
    let (key, value, equal) = if let Some((key, value)) = text.split_once("!=") {
        (key, value, false)
    } else {
        let (key, value) = text.split_once("==").or_else(|| text.split_once('='))?;
        (key, value, true)
    };
    let values = vec![value.trim().to_owned()];
    let test = if equal { Test::In(values) } else { Test::NotIn(values) };
    Some(Requirement { key: key.trim().to_owned(), test })
}

fn label(text: &str) -> Result<Requirement, ApiError> {
    let set = |key: &str, values: &str| {
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some((key.trim().to_owned(), values.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>()))
    };
    let requirement = if let Some((key, values)) = text.split_once(" notin ").and_then(|(k, v)| set(k, v)) {
        Requirement { key, test: Test::NotIn(values) }
    } else if let Some((key, values)) = text.split_once(" in ").and_then(|(k, v)| set(k, v)) {
        Requirement { key, test: Test::In(values) }
    } else if let Some(requirement) = equality(text) {
        requirement
    } else if let Some(key) = text.strip_prefix('!') {
        Requirement { key: key.trim().to_owned(), test: Test::Missing }
    } else {
        Requirement { key: text.to_owned(), test: Test::Exists }
    };
    let values = match &requirement.test {
        Test::In(values) | Test::NotIn(values) => values.as_slice(),
        _ => &[],
    };
    if values.iter().any(|value| value.starts_with('=')) {
        return Err(ApiError::BadRequest(
            "unable to parse requirement: found '=', expected: identifier".to_owned(),
        ));
    }
    if requirement.key.is_empty() && text == "!" {
        return Err(ApiError::BadRequest(
            "unable to parse requirement: found '', expected: identifier".to_owned(),
        ));
    }
    if let Some((_, wrong)) = text.split_once(" in ").filter(|(_, values)| !values.trim().starts_with('(')) {
        let why = format!("unable to parse requirement: found '{}' expected: '('", wrong.trim());
        return Err(ApiError::BadRequest(why));
    }
    if requirement.key.is_empty()
        || requirement.key.contains(|c: char| c.is_whitespace() || "()!=".contains(c))
    {
        return Err(ApiError::BadRequest(format!("unable to parse requirement: {text}")));
    }
    if let Some(mistake) = key_mistake(&requirement.key) {
        let why =
            format!("unable to parse requirement: <nil>: Invalid value: \"{}\": {mistake}", requirement.key);
        return Err(ApiError::BadRequest(why));
    }
    Ok(requirement)
}

fn field(kind: &Kind, text: &str) -> Result<Requirement, ApiError> {
    let requirement = equality(text).ok_or_else(|| {
        ApiError::BadRequest(format!("invalid selector: '{text}'; can't understand '{text}'"))
    })?;
    let key = requirement.key.as_str();
    if matches!(key, "metadata.name" | "metadata.namespace") || kind.fields.contains(&key) {
        Ok(requirement)
    } else {
        let why = if kind.fields.is_empty() {
            format!("\"{key}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {key}")
        };
        Err(ApiError::BadRequest(why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Selector;
    use crate::kinds::Kind;

    fn matches(labels: &str, fields: &str) -> bool {
        let pods = Kind::find("", "v1", "pods").unwrap();
        let pod = json!({"metadata": {"name": "cart", "labels": {"app": "cart", "tier": "back"}},
                         "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        Selector::parse(pods, Some(labels), Some(fields)).unwrap().matches(&pod)
    }

    #[test]
    fn label_requirements() {
        for yes in ["", "app", "app=cart", "app==cart", "app!=x", "gone!=x", "!gone", "app in (x, cart),tier"]
        {
            assert!(matches(yes, ""), "{yes}");
        }
        for no in ["gone", "app=x", "app!=cart", "!app", "app in (x,y)", "app notin (cart)", "app,tier=front"]
        {
            assert!(!matches(no, ""), "{no}");
        }
        assert!(matches("gone notin (a,b)", ""));
    }

    #[test]
    fn field_requirements() {
        assert!(matches("", "spec.nodeName=n1,status.phase!=Failed,metadata.name=cart"));
        assert!(matches("", "spec.hostNetwork=false,spec.nodeName!=n2,metadata.namespace!=x"));
        assert!(!matches("", "spec.hostNetwork=true"));
        assert!(!matches("", "spec.nodeName="));
        assert!(!matches("", "status.phase=Pending"));
    }

    #[test]
    fn what_cannot_be_parsed_is_refused() {
        let pods = Kind::find("", "v1", "pods").unwrap();
        for (labels, fields) in [("app in x", ""), ("=x", ""), ("", "spec.hostname=x"), ("", "metadata.name")]
        {
            assert!(Selector::parse(pods, Some(labels), Some(fields)).is_err(), "{labels} {fields}");
        }
    }
}
