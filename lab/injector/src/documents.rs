// SPDX-License-Identifier: Apache-2.0
//! Reads a mesh's documents as its injector does: whether a CNI plugin programs the rules of pods, and who calls it. Upstream's operator sets
//! `pilot.cni.enabled` where its component `cni` is enabled; `istio_cni` is what templates up to 1.22 read.

use serde_json::Value;

use crate::config::{Config, Programming, Provider};

impl Config {
    /// Configuration of an injector that is installed from these documents; without a word in any, upstream's default: no plugin.
    #[must_use]
    pub fn of(documents: &[Value]) -> Self {
        let mut config = Self { programming: Programming::Init, ..Self::default() };
        for document in documents {
            let (enabled, provider) = match document["kind"].as_str() {
                Some("IstioOperator") => operator(document),
                Some("ServiceMesh") => {
                    let cni = &document["spec"]["istioConfig"]["cni"];
                    (cni["enabled"].as_bool(), cni["provider"].as_str())
                }
                _ => (None, None),
            };
            if let Some(enabled) = enabled {
                config.programming = if enabled { Programming::Cni } else { Programming::Init };
            }
            if let Some(provider) = provider {
                config.provider = if provider == "multus" { Provider::Multus } else { Provider::Chained };
            }
        }
        config
    }
}

/// An explicit value wins over what the component implies.
fn operator(document: &Value) -> (Option<bool>, Option<&str>) {
    let spec = &document["spec"];
    let sections = [
        &spec["values"]["pilot"]["cni"],
        &spec["values"]["istio_cni"],
        &document["values"]["pilot"]["cni"],
        &document["values"]["istio_cni"],
    ];
    let enabled = sections.iter().find_map(|section| section["enabled"].as_bool());
    let of_profile = matches!(spec["profile"].as_str(), Some("ambient" | "openshift" | "openshift-ambient"));
    let component = spec["components"]["cni"]["enabled"].as_bool().or(of_profile.then_some(true));
    let unchained = |section: &&Value| section["chained"].as_bool() == Some(false);
    let provider = sections.iter().find_map(|section| section["provider"].as_str());
    (enabled.or(component), provider.or_else(|| sections.iter().copied().find(unchained).map(|_| "multus")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn programming(document: Value) -> Programming {
        Config::of(&[document]).programming
    }

    #[test]
    fn a_plugin_programs_rules_where_a_document_says_so() {
        let operator = |spec: Value| programming(json!({ "kind": "IstioOperator", "spec": spec }));
        assert_eq!(operator(json!({ "components": { "cni": { "enabled": true } } })), Programming::Cni);
        assert_eq!(
            operator(json!({ "values": { "pilot": { "cni": { "enabled": true } } } })),
            Programming::Cni
        );
        assert_eq!(operator(json!({ "profile": "openshift" })), Programming::Cni);
        assert_eq!(operator(json!({})), Programming::Init);
        let both = json!({ "components": { "cni": { "enabled": true } }, "values": { "istio_cni": { "enabled": false } } });
        assert_eq!(operator(both), Programming::Init);
        let mesh = |enabled: bool| json!({ "kind": "ServiceMesh", "spec": { "istioConfig": { "cni": { "enabled": enabled } } } });
        assert_eq!(
            (programming(mesh(true)), programming(mesh(false))),
            (Programming::Cni, Programming::Init)
        );
    }

    #[test]
    fn who_calls_the_plugin_is_said_there_too() {
        let provider = |cni: Value| {
            Config::of(&[json!({ "kind": "IstioOperator", "spec": { "values": { "istio_cni": cni } } })])
                .provider
        };
        assert_eq!(provider(json!({ "provider": "multus" })), Provider::Multus);
        assert_eq!(provider(json!({ "chained": false })), Provider::Multus);
        assert_eq!(provider(json!({ "enabled": true })), Provider::Chained);
    }
}
