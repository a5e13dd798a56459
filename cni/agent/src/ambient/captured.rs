// SPDX-License-Identifier: Apache-2.0
//! Pods that upstream's node agent would capture in ambient mode. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::conflist::entry::as_read;
use crate::pods::NodePod;
use crate::selector::{Requirement, of_object};
use crate::settings::Settings;

/// Annotation of a pod with a sidecar: it is not captured.
const SIDECAR: &str = "sidecar.istio.io/status";
/// Annotation that upstream's agent sets on a pod that it has captured.
const REDIRECTION: &str = "ambient.istio.io/redirection";

/// Default of `ambient.enablementSelectors`, and of releases before it.
const SELECTORS: &str = manifests::table::SELECTORS.value_default;

/// Labels by name.
pub(super) type Labels = BTreeMap<String, String>;

/// Rules by which pods are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CaptureRules {
    /// A pod that any of them selects is captured.
    selectors: Vec<EnablementSelector>,
    excluded: Vec<String>,
    /// Labels of namespaces count, and may be read.
    pub(super) reads_namespaces: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct EnablementSelector {
    pod: Vec<Requirement>,
    namespace: Vec<Requirement>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSelector {
    pod_selector: Value,
    namespace_selector: Value,
}

/// Relation of ambient mode to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Not in ambient mode.
    No,
    /// To be captured.
    Wanted,
    /// Captured by another agent before.
    Former,
}

impl CaptureRules {
    pub(super) fn of(settings: &Settings) -> Self {
        // A template's keys win over settings. One that cannot be read says nothing.
        let of_settings = &settings.entry;
        let (is_enabled, excluded) = match as_read(settings) {
            Some(entry) => (entry.ambient_enabled, entry.exclude_namespaces),
            None => (of_settings.ambient_enabled, of_settings.exclude_namespaces.clone()),
        };
        let set = if is_enabled { read(&of_settings.enablement_selectors) } else { Vec::new() };
        Self {
            selectors: if set.is_empty() { read(SELECTORS) } else { set },
            excluded,
            reads_namespaces: is_enabled,
        }
    }

    /// Decides on a pod; `namespace` has the labels of its namespace, if they are known.
    pub(super) fn decide(&self, pod: &NodePod, namespace: Option<&Labels>) -> Capture {
        let facts = &pod.metadata.facts;
        let is_over = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        if is_over
            || pod.metadata.deletion_timestamp.is_some()
            || pod.spec.facts.host_network
            || facts.annotations.contains_key(SIDECAR)
            || self.excluded.contains(&facts.namespace)
            || !self.selectors.iter().any(|one| one.selects(&facts.labels, namespace))
        {
            return Capture::No;
        }
        let is_former = facts.annotations.get(REDIRECTION).is_some_and(|value| value == "enabled");
        if is_former { Capture::Former } else { Capture::Wanted }
    }
}

impl EnablementSelector {
    fn selects(&self, pod: &Labels, namespace: Option<&Labels>) -> bool {
        let holds = |all: &[Requirement], labels| all.iter().all(|one| one.holds(labels));
        let is_namespace =
            namespace.map_or(self.namespace.is_empty(), |labels| holds(&self.namespace, labels));
        is_namespace && holds(&self.pod, pod)
    }
}

/// Selectors of a list as JSON. What cannot be read selects nothing.
fn read(list: &str) -> Vec<EnablementSelector> {
    let raw: Vec<RawSelector> = serde_json::from_str(list).unwrap_or_default();
    let one = |raw: &RawSelector| {
        Some(EnablementSelector {
            pod: of_object(&raw.pod_selector).ok()?,
            namespace: of_object(&raw.namespace_selector).ok()?,
        })
    };
    raw.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::load;

    fn rules(environment: &[(&str, &str)]) -> CaptureRules {
        let environment: BTreeMap<_, _> =
            environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CaptureRules::of(&load(BTreeMap::new(), &environment, |_| false).settings)
    }

    fn pod(labels: &Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "cart", "uid": "u", "labels": labels}})
    }

    fn with(mut pod: Value, path: &str, value: Value) -> NodePod {
        let (group, field) = path.split_once('.').unwrap();
        pod[group][field] = value;
        serde_json::from_value(pod).unwrap()
    }

    fn plain(labels: &Value) -> NodePod {
        serde_json::from_value(pod(labels)).unwrap()
    }

    fn labels(value: &str) -> Labels {
        Labels::from([("istio.io/dataplane-mode".to_owned(), value.to_owned())])
    }

    #[test]
    fn a_label_of_the_pod_or_of_its_namespace_captures_and_none_of_the_pod_does_not() {
        let ambient = json!({"istio.io/dataplane-mode": "ambient"});
        let opted_out = json!({"istio.io/dataplane-mode": "none"});
        for enabled in ["true", "false"] {
            let rules = rules(&[("AMBIENT_ENABLED", enabled)]);
            assert_eq!(rules.reads_namespaces, enabled == "true");
            for (of_pod, namespace, want) in [
                (&ambient, None, Capture::Wanted),
                (&ambient, Some(labels("none")), Capture::Wanted),
                (&json!({}), Some(labels("ambient")), Capture::Wanted),
                (&opted_out, Some(labels("ambient")), Capture::No),
                (&json!({}), Some(labels("none")), Capture::No),
                (&json!({}), Some(Labels::new()), Capture::No),
                (&json!({}), None, Capture::No),
            ] {
                assert_eq!(rules.decide(&plain(of_pod), namespace.as_ref()), want, "{of_pod} {namespace:?}");
            }
        }
    }

    #[test]
    fn pods_that_upstreams_agent_leaves_alone_are_not_counted() {
        let rules = rules(&[("AMBIENT_ENABLED", "true"), ("EXCLUDE_NAMESPACES", "kube-system")]);
        let ambient = pod(&json!({"istio.io/dataplane-mode": "ambient"}));
        for (path, value, want) in [
            ("spec.hostNetwork", json!(true), Capture::No),
            ("metadata.annotations", json!({"sidecar.istio.io/status": "{}"}), Capture::No),
            ("metadata.annotations", json!({"ambient.istio.io/redirection": "enabled"}), Capture::Former),
            ("metadata.annotations", json!({"ambient.istio.io/redirection": "disabled"}), Capture::Wanted),
            ("metadata.namespace", json!("kube-system"), Capture::No),
            ("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z"), Capture::No),
            ("status.phase", json!("Succeeded"), Capture::No),
            ("status.phase", json!("Running"), Capture::Wanted),
        ] {
            assert_eq!(
                rules.decide(&with(ambient.clone(), path, value.clone()), None),
                want,
                "{path} {value}"
            );
        }
    }

    #[test]
    fn selectors_of_the_settings_count_where_ambient_mode_is_on() {
        let own = r#"[{"podSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}}]"#;
        let (front, ambient) = (json!({"tier": "front"}), json!({"istio.io/dataplane-mode": "ambient"}));
        for (enabled, selectors, of_front, of_ambient) in [
            ("true", own, Capture::Wanted, Capture::No),
            ("false", own, Capture::No, Capture::Wanted),
            // As in ConfigMaps of releases before the selectors.
            ("true", "", Capture::No, Capture::Wanted),
        ] {
            let rules = rules(&[("AMBIENT_ENABLED", enabled), ("AMBIENT_ENABLEMENT_SELECTOR", selectors)]);
            assert_eq!(rules.decide(&plain(&front), None), of_front, "{enabled} {selectors}");
            assert_eq!(rules.decide(&plain(&ambient), None), of_ambient, "{enabled} {selectors}");
        }
    }

    #[test]
    fn a_namespace_whose_labels_are_unknown_is_selected_by_no_requirement() {
        let not_in =
            r#"[{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}]"#;
        let rules = rules(&[("AMBIENT_ENABLED", "true"), ("AMBIENT_ENABLEMENT_SELECTOR", not_in)]);
        assert_eq!(rules.decide(&plain(&json!({})), None), Capture::No);
        assert_eq!(rules.decide(&plain(&json!({})), Some(&Labels::new())), Capture::Wanted);
    }
}
