// SPDX-License-Identifier: Apache-2.0
//! `AMBIENT_ENABLEMENT_SELECTOR`: YAML in, the JSON that our entry carries out.

use std::collections::BTreeMap;

use manifests::document::first_line;
use serde::{Deserialize, Serialize};

use super::kind::Problem;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    pod_selector: Labels,
    namespace_selector: Labels,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Labels {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    match_labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_expressions: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

/// The list as JSON; empty and `null` are an empty list.
///
/// # Errors
/// Malformed list.
pub(super) fn to_json(yaml: &str) -> Result<String, Problem> {
    if yaml.trim().is_empty() {
        return Ok("[]".to_owned());
    }
    let list: Option<Vec<Selector>> =
        serde_saphyr::from_str(yaml).map_err(|error| Problem::Selectors(first_line(&error)))?;
    serde_json::to_string(&list.unwrap_or_default()).map_err(|error| Problem::Selectors(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_the_json_of_the_entry() {
        let yaml = "- podSelector:\n    matchLabels:\n      istio.io/dataplane-mode: ambient\n";
        let json = r#"[{"podSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}},"namespaceSelector":{}}]"#;
        assert_eq!(to_json(yaml).as_deref(), Ok(json));
        let yaml = "[{namespaceSelector: {matchExpressions: [{key: k, operator: In, values: [a, b]}, {key: x, operator: Exists}]}}]";
        let json = r#"[{"podSelector":{},"namespaceSelector":{"matchExpressions":[{"key":"k","operator":"In","values":["a","b"]},{"key":"x","operator":"Exists"}]}}]"#;
        assert_eq!(to_json(yaml).as_deref(), Ok(json));
    }

    #[test]
    fn nothing_is_an_empty_list() {
        for yaml in ["", " \n", "null", "[]", "~"] {
            assert_eq!(to_json(yaml).as_deref(), Ok("[]"), "{yaml:?}");
        }
    }

    #[test]
    fn what_is_no_list_is_told_in_one_line() {
        for yaml in ["{not: [valid", "7", "podSelector: {}", "- podSelector: [a]", "- x\n- y"] {
            let Err(Problem::Selectors(why)) = to_json(yaml) else { panic!("{yaml}") };
            assert!(!why.is_empty() && !why.contains('\n'), "{yaml}: {why}");
        }
    }
}
