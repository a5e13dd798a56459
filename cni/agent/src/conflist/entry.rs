// SPDX-License-Identifier: Apache-2.0
//! Our entry: what the plugin is told, generated from the settings or made of the operator's template.

use serde_json::{Map, Value, json};

use super::OUR_TYPE;
use crate::settings::Settings;

/// The version of a configuration that holds our entry alone.
const VERSION: &str = "0.3.1";

/// Why there is no entry to install.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The selectors are no JSON.
    #[error("enablement selectors are not JSON: {0}")]
    Selectors(String),
    /// The template is no JSON object once its placeholders are filled in.
    #[error("CNI_NETWORK_CONFIG is not a JSON object: {0}; correct it or leave it out")]
    Template(String),
    /// The template is another plugin's.
    #[error("CNI_NETWORK_CONFIG has \"type\" {0}, not \"istio-cni\"; correct it or leave it out")]
    Type(String),
    /// A placeholder that nobody knows.
    #[error("CNI_NETWORK_CONFIG has the placeholder {0}, which is unknown; correct it or leave it out")]
    Placeholder(String),
}

/// Our entry as it stands in a list.
///
/// # Errors
/// The settings make none.
pub fn chained(settings: &Settings) -> Result<Value, EntryError> {
    let mut generated = generated(settings)?;
    if settings.chain.template.is_empty() {
        return Ok(Value::Object(generated));
    }
    let mut template = template(settings)?;
    // Without these the plugin would not find us, or not know us.
    for key in ["cni_agent_run_dir", "pod_namespace"] {
        if let (false, Some(value)) = (template.contains_key(key), generated.remove(key)) {
            template.insert(key.to_owned(), value);
        }
    }
    template.remove("cniVersion");
    Ok(Value::Object(template))
}

/// Our entry as a configuration of its own: a plugin of its own right for Multus.
///
/// # Errors
/// The settings make none.
pub fn standalone(settings: &Settings) -> Result<Value, EntryError> {
    let mut entry = chained(settings)?;
    if let Some(keys) = entry.as_object_mut() {
        keys.insert("cniVersion".to_owned(), VERSION.into());
    }
    Ok(entry)
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
        "plugin_log_level": entry.log_level,
        "cni_agent_run_dir": settings.places.run_dir.display().to_string(),
        "ambient_enabled": entry.ambient_enabled,
        "enablement_selectors": selectors(&entry.enablement_selectors)?,
        "exclude_namespaces": excluded,
        "pod_namespace": entry.pod_namespace,
        "native_nftables": entry.native_nftables,
        "enable_ambient_detection_retry": entry.ambient_detection_retry,
    });
    if entry.status_gate {
        keys["millrace_status_gate"] = "agent".into();
    }
    Ok(keys.as_object_mut().map(std::mem::take).unwrap_or_default())
}

fn selectors(text: &str) -> Result<Value, EntryError> {
    match text.trim() {
        "" | "null" => Ok(json!([])),
        text => serde_json::from_str(text).map_err(|error| EntryError::Selectors(error.to_string())),
    }
}

/// The template with its placeholders filled in.
fn template(settings: &Settings) -> Result<Map<String, Value>, EntryError> {
    let (_, host, port) = &settings.kubeconfig.server;
    let run_dir = &settings.places.run_dir;
    let known = [
        ("__KUBECONFIG_FILEPATH__", run_dir.join(crate::install::KUBECONFIG).display().to_string()),
        ("__KUBECONFIG_FILENAME__", crate::install::KUBECONFIG.to_owned()),
        ("__LOG_UDS_ADDRESS__", run_dir.join("log.sock").display().to_string()),
        ("__LOG_LEVEL__", settings.entry.log_level.clone()),
        ("__KUBERNETES_SERVICE_HOST__", host.clone()),
        ("__KUBERNETES_SERVICE_PORT__", port.clone()),
        ("__KUBERNETES_NODE_NAME__", settings.own.node.clone()),
    ];
    let filled =
        known.iter().fold(settings.chain.template.clone(), |text, (name, value)| text.replace(name, value));
    if let Some(unknown) = placeholder(&filled) {
        return Err(EntryError::Placeholder(unknown));
    }
    let template: Map<String, Value> =
        serde_json::from_str(&filled).map_err(|error| EntryError::Template(error.to_string()))?;
    match template.get("type") {
        Some(kind) if kind == OUR_TYPE => Ok(template),
        other => Err(EntryError::Type(other.unwrap_or(&Value::Null).to_string())),
    }
}

/// The first `__UPPER_CASE__` in a text.
fn placeholder(text: &str) -> Option<String> {
    let words = text.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
    let is_one = |word: &&str| word.len() > 4 && word.starts_with("__") && word.ends_with("__");
    words.into_iter().find(is_one).map(str::to_owned)
}
