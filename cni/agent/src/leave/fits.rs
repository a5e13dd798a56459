// SPDX-License-Identifier: Apache-2.0
//! Eligibility of a node for a DaemonSet's pod: node selector, required node affinity, taints. As the DaemonSet controller decides it.
//! Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// Taints that the DaemonSet controller lets every pod of its own tolerate.
const ALWAYS_TOLERATED: [&str; 7] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

/// Reason against a pod of this template on the node; `None` if it fits.
#[must_use]
pub fn misfit(template: &PodSpec, node: &Node) -> Option<String> {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let selector = template.node_selector.iter().flatten();
    if let Some((key, value)) = selector.clone().find(|(key, value)| labels.get(*key) != Some(*value)) {
        return Some(format!("its nodeSelector wants {key}={value}"));
    }
    let affinity = template.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if required
        .is_some_and(|required| !required.node_selector_terms.iter().any(|term| holds(term, labels, name)))
    {
        return Some("its required nodeAffinity matches the node no more".to_owned());
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let tolerations = template.tolerations.as_deref().unwrap_or_default();
    let taint = taints.into_iter().flatten().find(|taint| repels(taint, tolerations))?;
    Some(format!("it does not tolerate the node's taint {}:{}", taint.key, taint.effect))
}

/// True if the pod does not tolerate the taint. `PreferNoSchedule` never repels.
fn repels(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let decides = matches!(taint.effect.as_str(), "NoExecute" | "NoSchedule");
    decides
        && !ALWAYS_TOLERATED.contains(&taint.key.as_str())
        && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && exists)
        && (exists || text(&toleration.value) == text(&taint.value))
}

/// An empty term matches no node.
fn holds(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then_some(name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| matches(one, labels.get(&one.key).map(String::as_str)))
        && fields.iter().all(|one| matches(one, field(&one.key)))
}

fn matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|one| one == value));
    let numbers = || -> Option<(i64, i64)> { Some((value?.parse().ok()?, values.first()?.parse().ok()?)) };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, limit)| value > limit),
        "Lt" => numbers().is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn why(template: Value, node: Value) -> Option<String> {
        let mut template = template;
        template["containers"] = json!([]);
        misfit(&serde_json::from_value(template).unwrap(), &serde_json::from_value(node).unwrap())
    }

    fn node(labels: &Value, taints: &Value) -> Value {
        json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}})
    }

    fn affinity(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    #[test]
    fn the_node_selector_counts_with_every_label() {
        let template = json!({"nodeSelector": {"kubernetes.io/os": "linux", "pool": "mesh"}});
        let with = |pool| node(&json!({"kubernetes.io/os": "linux", "pool": pool}), &json!([]));
        assert_eq!(why(template.clone(), with("mesh")), None);
        assert!(why(template.clone(), with("other")).unwrap().contains("pool=mesh"));
        assert!(why(template, node(&json!({"pool": "mesh"}), &json!([]))).is_some());
    }

    #[test]
    fn one_term_of_the_affinity_is_enough_and_all_of_it_must_hold() {
        let labels = || json!({"zone": "a", "cores": "8"});
        for (terms, fits) in [
            (json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]), true),
            (json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]), false),
            (json!([{"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["a"]}]}]), true),
            (json!([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]), false),
            (json!([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]), true),
            (json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}]), true),
            (json!([{"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}]), false),
            (
                json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}]}]),
                false,
            ),
            (
                json!([{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
                true,
            ),
            (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]), false),
            (json!([{}]), false),
        ] {
            assert_eq!(why(affinity(&terms), node(&labels(), &json!([]))).is_none(), fits, "{terms}");
        }
    }

    #[test]
    fn a_taint_that_is_not_tolerated_keeps_the_pod_away() {
        let taint = |effect: &str| json!([{"key": "dedicated", "value": "db", "effect": effect}]);
        for effect in ["NoExecute", "NoSchedule"] {
            assert!(
                why(json!({}), node(&json!({}), &taint(effect))).unwrap().contains("dedicated"),
                "{effect}"
            );
        }
        assert_eq!(why(json!({}), node(&json!({}), &taint("PreferNoSchedule"))), None);
        for (toleration, fits) in [
            (json!({"operator": "Exists"}), true),
            (json!({"operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"key": "dedicated", "operator": "Exists"}), true),
            (json!({"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoExecute"}), true),
            (json!({"key": "dedicated", "value": "web"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let template = json!({"tolerations": [toleration.clone()]});
            assert_eq!(why(template, node(&json!({}), &taint("NoExecute"))).is_none(), fits, "{toleration}");
        }
    }

    #[test]
    fn a_drain_and_a_sick_node_are_tolerated_by_every_daemonset() {
        for key in ALWAYS_TOLERATED {
            let taints = json!([{"key": key, "effect": "NoSchedule"}, {"key": key, "effect": "NoExecute"}]);
            assert_eq!(why(json!({}), node(&json!({}), &taints)), None, "{key}");
        }
    }
}
