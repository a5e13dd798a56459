// SPDX-License-Identifier: Apache-2.0
//! `CNI_NETWORK_CONFIG`: an operator's own text of our entry, as installers up to 1.22 took it. Placeholders are replaced, the result is
//! checked; what it lacks is filled in where the entry is written.

use protocol::netconf::NetConf;
use serde_json::{Map, Value};

use super::{NEWEST, OUR_TYPE};

/// Values of the placeholders.
#[derive(Debug, Clone, Copy)]
pub struct PlaceholderValues<'a> {
    /// `__LOG_LEVEL__`
    pub log_level: &'a str,
    /// `__KUBECONFIG_FILEPATH__`; the last part of it is `__KUBECONFIG_FILENAME__`.
    pub kubeconfig: &'a str,
    /// `__LOG_UDS_ADDRESS__`
    pub log_socket: &'a str,
    /// `__KUBERNETES_SERVICE_HOST__`
    pub host: &'a str,
    /// `__KUBERNETES_SERVICE_PORT__`
    pub port: &'a str,
    /// `__KUBERNETES_NODE_NAME__`
    pub node: &'a str,
}

/// Malformed template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Not JSON once the placeholders are replaced.
    #[error("it is no JSON object ({0})")]
    Json(String),
    /// Entry of another plugin.
    #[error("its type is {0:?}")]
    Type(String),
    /// A conflist instead of one plugin's entry.
    #[error("it has a list \"plugins\"; only our own entry of such a list belongs here")]
    List,
    /// The plugin would reject such an entry, and with it every pod.
    #[error("the plugin could not read it: {0}")]
    Entry(String),
    /// The gate: its setting, unlike a template, is checked against where the agent runs.
    #[error(
        "millrace_status_gate belongs into MILLRACE_STATUS_GATE: with an agent that is not on the node's network it keeps the node from being ready for good"
    )]
    Gate,
    /// The token, which belongs into the kubeconfig alone: other files of the directory may be read by others.
    #[error("__SERVICEACCOUNT_TOKEN__ is not replaced, as a token belongs into the kubeconfig only")]
    Token,
    /// Unknown placeholder.
    #[error("nothing is known of {0}")]
    Placeholder(String),
}

/// The template with its placeholders replaced: JSON text of an object of our type. Nothing stays nothing.
///
/// # Errors
/// [`TemplateError`]
pub fn fill(template: &str, facts: PlaceholderValues<'_>) -> Result<String, TemplateError> {
    if template.trim().is_empty() {
        return Ok(String::new());
    }
    let name = facts.kubeconfig.rsplit('/').next().unwrap_or_default();
    let mut text = template.to_owned();
    for (placeholder, value) in [
        ("__LOG_LEVEL__", facts.log_level),
        ("__LOG_UDS_ADDRESS__", facts.log_socket),
        ("__KUBECONFIG_FILENAME__", name),
        ("__KUBECONFIG_FILEPATH__", facts.kubeconfig),
        ("__KUBERNETES_SERVICE_HOST__", facts.host),
        ("__KUBERNETES_SERVICE_PORT__", facts.port),
        ("__KUBERNETES_NODE_NAME__", facts.node),
    ] {
        let quoted = Value::from(value).to_string();
        let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
        text = text.replace(placeholder, escaped);
    }
    match placeholder(&text) {
        Some("__SERVICEACCOUNT_TOKEN__") => return Err(TemplateError::Token),
        Some(other) => return Err(TemplateError::Placeholder(other.to_owned())),
        None => {}
    }
    let object: Map<String, Value> =
        serde_json::from_str(&text).map_err(|error| TemplateError::Json(error.to_string()))?;
    match object.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == OUR_TYPE => {}
        Some(other) => return Err(TemplateError::Type(other.as_str().unwrap_or("no text").to_owned())),
    }
    decode(object)?;
    Ok(text)
}

/// Reads it as the plugin would. What the settings add to it is of the right kind; a name and a version come from the list.
fn decode(mut template: Map<String, Value>) -> Result<(), TemplateError> {
    if template.contains_key("plugins") {
        return Err(TemplateError::List);
    }
    for (key, usual) in [("name", OUR_TYPE), ("cniVersion", NEWEST)] {
        template.entry(key).or_insert_with(|| usual.into());
    }
    if template.contains_key("millrace_status_gate") {
        return Err(TemplateError::Gate);
    }
    let read = NetConf::parse(Value::Object(template).to_string().as_bytes());
    read.map(drop).map_err(|error| TemplateError::Entry(error.to_string()))
}

/// Validates a template, whatever its placeholders' values.
///
/// # Errors
/// Those of [`fill`].
pub(super) fn check(template: &str) -> Result<(), TemplateError> {
    let facts = PlaceholderValues {
        log_level: "info",
        kubeconfig: "/k",
        log_socket: "/l",
        host: "h",
        port: "443",
        node: "n",
    };
    fill(template, facts).map(drop)
}

/// First `__NAME__` of a text.
fn placeholder(text: &str) -> Option<&str> {
    text.match_indices("__").find_map(|(start, _)| {
        let inner = &text[start + 2..];
        let end = inner.find("__")?;
        let name = &inner[..end];
        let shouted = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        shouted.then(|| &text[start..start + 2 + end + 2])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: PlaceholderValues<'_> = PlaceholderValues {
        log_level: "debug",
        kubeconfig: "/run/x/istio-cni-kubeconfig",
        log_socket: "/run/x/log.sock",
        host: "fd00::1",
        port: "6443",
        node: "n\"1",
    };

    #[test]
    fn the_template_of_1_22_is_filled_in() {
        let template = r#"{
            "cniVersion": "0.3.1", "name": "istio-cni", "type": "istio-cni", "log_level": "__LOG_LEVEL__",
            "log_uds_address": "__LOG_UDS_ADDRESS__",
            "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__", "node_name": "__KUBERNETES_NODE_NAME__",
                "k8s_api_root": "https://[__KUBERNETES_SERVICE_HOST__]:__KUBERNETES_SERVICE_PORT__", "f": "__KUBECONFIG_FILENAME__"}
        }"#;
        let got: Value = serde_json::from_str(&fill(template, FACTS).unwrap()).unwrap();
        assert_eq!(got["log_level"], "debug");
        assert_eq!(got["log_uds_address"], "/run/x/log.sock");
        assert_eq!(got["kubernetes"]["kubeconfig"], "/run/x/istio-cni-kubeconfig");
        assert_eq!(got["kubernetes"]["f"], "istio-cni-kubeconfig");
        assert_eq!(got["kubernetes"]["k8s_api_root"], "https://[fd00::1]:6443");
        assert_eq!(got["kubernetes"]["node_name"], "n\"1");
    }

    #[test]
    fn what_cannot_be_our_entry_is_refused_with_its_cause() {
        let fill = |text| fill(text, FACTS).unwrap_err();
        assert!(matches!(fill("[]"), TemplateError::Json(_)));
        assert!(matches!(fill("{"), TemplateError::Json(_)));
        assert_eq!(fill(r#"{"type": "calico"}"#), TemplateError::Type("calico".to_owned()));
        assert_eq!(fill(r#"{"type": 7}"#), TemplateError::Type("no text".to_owned()));
        for (text, why) in [
            (r#"{"type": "istio-cni", "exclude_namespaces": "kube-system"}"#, "exclude_namespaces"),
            (r#"{"ambient_enabled": "false"}"#, "ambient_enabled"),
            (r#"{"kubernetes": {"exclude_namespaces": [1]}}"#, "exclude_namespaces"),
            (r#"{"name": 7}"#, "name"),
            (r#"{"name": null}"#, "name"),
            (r#"{"name": "two words"}"#, "name"),
            (r#"{"cniVersion": 1}"#, "cniVersion"),
        ] {
            let TemplateError::Entry(said) = fill(text) else { panic!("{text}") };
            assert!(said.contains(why), "{text}: {said}");
        }
        let list = r#"{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "istio-cni"}]}"#;
        assert_eq!(fill(list), TemplateError::List);
        assert_eq!(fill(r#"{"millrace_status_gate": "config"}"#), TemplateError::Gate);
        assert_eq!(fill(r#"{"token": "__SERVICEACCOUNT_TOKEN__"}"#), TemplateError::Token);
        assert_eq!(
            fill(r#"{"a_": "_b__ETCD_ENDPOINTS__"}"#),
            TemplateError::Placeholder("__ETCD_ENDPOINTS__".to_owned())
        );
    }

    #[test]
    fn nothing_stays_nothing_and_underscores_are_no_placeholder() {
        assert_eq!(fill(" \n", FACTS).as_deref(), Ok(""));
        let text = r#"{"a__b": "____", "c": "__lower__"}"#;
        assert_eq!(fill(text, FACTS).as_deref(), Ok(text));
    }
}
