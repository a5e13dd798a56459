// SPDX-License-Identifier: Apache-2.0
//! Our entry: what the plugin is told, generated from the settings or made of the operator's template.

use netfilter::Wish;
use protocol::netconf::{NetConf, POD_ANNOTATIONS};
use serde_json::{Map, Value, json};

use super::OUR_TYPE;
use super::document::{Document, Members};
use super::scan::DirectorySnapshot;
use super::{copy, splice};
use crate::settings::Settings;

/// `cniVersion` of a configuration that holds our entry alone, unless the template has one.
const VERSION: &str = "0.3.1";

/// Key and value that make STATUS depend on the agent.
const GATE: &str = "millrace_status_gate";
const GATED: &str = "agent";

/// Obstacle to building our entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Settings without a safe default.
    #[error("{}", .0.join("; "))]
    Blocked(Vec<String>),
    /// Malformed selectors.
    #[error("the enablement selectors are not JSON: {0}")]
    Selectors(String),
    /// Malformed template.
    #[error("CNI_NETWORK_CONFIG is not a JSON object: {0}")]
    Template(String),
}

/// True if an entry of ours makes STATUS depend on the agent.
#[must_use]
pub fn is_gated(now: &DirectorySnapshot) -> bool {
    let gated =
        |entry: &str| Members::parse(entry).is_ok_and(|keys| keys.text(GATE).as_deref() == Some(GATED));
    let texts = now.files.keys().filter_map(|name| now.text(name));
    texts.filter_map(|text| Document::parse(text).ok()).any(|list| list.ours().into_iter().any(gated))
}

/// Our entry as the plugin reads it, whatever else keeps it from being written; `None` if its template cannot be used.
#[must_use]
pub fn as_read(settings: &Settings) -> Option<NetConf> {
    NetConf::parse(alone(made(settings).ok()?).to_string().as_bytes()).ok()
}

/// Our entry as it stands in a list, which has the version.
///
/// # Errors
/// The settings make none.
pub fn chained(settings: &Settings) -> Result<Value, EntryError> {
    unblocked(settings)?;
    let mut keys = made(settings)?;
    keys.remove("cniVersion");
    Ok(Value::Object(keys))
}

/// Our entry as a configuration of its own: for Multus.
///
/// # Errors
/// The settings make none.
pub fn standalone(settings: &Settings) -> Result<Value, EntryError> {
    unblocked(settings)?;
    made(settings).map(alone)
}

fn unblocked(settings: &Settings) -> Result<(), EntryError> {
    if settings.blocked.is_empty() { Ok(()) } else { Err(EntryError::Blocked(settings.blocked.clone())) }
}

fn alone(mut keys: Map<String, Value>) -> Value {
    keys.entry("cniVersion").or_insert_with(|| VERSION.into());
    Value::Object(keys)
}

/// Keys of the entry: a template's win over generated ones.
fn made(settings: &Settings) -> Result<Map<String, Value>, EntryError> {
    let mut keys = generated(settings)?;
    let template = settings.chain.template.as_deref();
    let template = template.ok_or_else(|| EntryError::Blocked(settings.blocked.clone()))?;
    if !template.is_empty() {
        let template: Map<String, Value> =
            serde_json::from_str(template).map_err(|error| EntryError::Template(error.to_string()))?;
        // Beside one of today the plugin passes over a key of 1.22.
        let has_excluded = |old: &Value| old.get("exclude_namespaces").is_some_and(|list| !list.is_null());
        if template.get("kubernetes").is_some_and(has_excluded) {
            keys.remove("exclude_namespaces");
        }
        if template.contains_key("log_level") {
            keys.remove("plugin_log_level");
        }
        keys.extend(template);
    }
    // Marks in our entry, not settings.
    for noted in [copy::MARK, splice::OWNERS_VERSION] {
        keys.remove(noted);
    }
    Ok(keys)
}

fn generated(settings: &Settings) -> Result<Map<String, Value>, EntryError> {
    let entry = &settings.entry;
    let excluded: Value = match entry.exclude_namespaces.as_slice() {
        [] => Value::Null,
        some => some.into(),
    };
    let mut keys = json!({
        "name": OUR_TYPE,
        "type": OUR_TYPE,
        "ipam": {},
        "dns": {},
        "plugin_log_level": entry.log_level.as_str(),
        "cni_agent_run_dir": settings.places.run_dir.display().to_string(),
        "ambient_enabled": entry.ambient_enabled,
        "enablement_selectors": selectors(&entry.enablement_selectors)?,
        "exclude_namespaces": excluded,
        "pod_namespace": entry.pod_namespace,
        "native_nftables": entry.native_nftables,
        "enable_ambient_detection_retry": entry.ambient_detection_retry,
    });
    if entry.status_gate {
        keys[GATE] = GATED.into();
    }
    if let Wish::Only(backend) = entry.backend {
        keys["millrace_backend"] = backend.name().into();
    }
    if entry.refuses_sandboxed {
        keys["millrace_sandboxed_runtimes"] = "refuse".into();
    }
    if entry.skips_no_interception {
        keys["millrace_interception_mode_none"] = "skip".into();
    }
    if entry.runtime_annotations {
        keys["capabilities"] = json!({ POD_ANNOTATIONS: true });
    }
    Ok(keys.as_object_mut().map(std::mem::take).unwrap_or_default())
}

fn selectors(text: &str) -> Result<Value, EntryError> {
    match text.trim() {
        "" | "null" => Ok(json!([])),
        text => serde_json::from_str(text).map_err(|error| EntryError::Selectors(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::netconf::LogLevel;

    use super::*;
    use crate::settings::build::{NodeFacts, build};
    use crate::settings::layers::Layers;

    #[test]
    fn a_version_of_the_template_counts_where_there_is_no_list() {
        let entry = |template: &str| {
            let environment = BTreeMap::from([("CNI_NETWORK_CONFIG".to_owned(), template.to_owned())]);
            let values = Layers::new(BTreeMap::new(), &environment).values();
            let settings = build(&values, &NodeFacts::default()).0;
            assert_eq!(chained(&settings).unwrap().get("cniVersion"), None);
            standalone(&settings).unwrap()["cniVersion"].clone()
        };
        assert_eq!(entry(r#"{"cniVersion": "1.0.0"}"#), "1.0.0");
        assert_eq!(entry("{}"), VERSION);
    }

    #[test]
    fn what_a_template_says_by_old_keys_is_not_hidden_by_generated_ones() {
        let read = |template: &str| {
            let said = [("CNI_NETWORK_CONFIG", template), ("EXCLUDE_NAMESPACES", "kube-system")];
            let environment: BTreeMap<_, _> = said.map(|(key, value)| (key.into(), value.into())).into();
            let values = Layers::new(BTreeMap::new(), &environment).values();
            let netconf = as_read(&build(&values, &NodeFacts::default()).0).unwrap();
            (netconf.log_level, netconf.exclude_namespaces)
        };
        let old =
            r#"{"type": "istio-cni", "log_level": "debug", "kubernetes": {"exclude_namespaces": ["x"]}}"#;
        assert_eq!(read(old), (LogLevel::Debug, vec!["x".to_owned()]));
        let without = r#"{"type": "istio-cni", "kubernetes": {"exclude_namespaces": null}}"#;
        assert_eq!(read(without), (LogLevel::Info, vec!["kube-system".to_owned()]));
    }
}
