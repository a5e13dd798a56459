// SPDX-License-Identifier: Apache-2.0
//! Where Multus runs the plugin as a network of its own, a pod has to ask for that network beside its others.

use serde_json::Value;

/// Pods' annotation for networks of Multus.
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Network of the plugin.
const OURS: &str = "default/istio-cni";
const OUR_OBJECT: &str = r#"{"name": "istio-cni", "namespace": "default"}"#;

/// A list of networks with the plugin's in it. What is neither form of list stays as it is; an empty list in JSON ends as none,
/// which is upstream's doing.
pub(crate) fn with_ours(existing: &str) -> String {
    if existing.is_empty() {
        return OURS.to_owned();
    }
    let Some(end) = existing.rfind(']') else {
        let is_there = existing.split(',').any(|one| one.trim() == OURS);
        return if is_there { existing.to_owned() } else { format!("{existing}, {OURS}") };
    };
    let is_ours = |one: &Value| one["name"] == "istio-cni" && one["namespace"] == "default";
    match serde_json::from_str::<Vec<Value>>(existing) {
        Ok(list) if !list.iter().any(is_ours) => {
            format!("{}, {OUR_OBJECT}{}", &existing[..end], &existing[end..])
        }
        _ => existing.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_added_once_to_either_form() {
        assert_eq!(with_ours(""), "default/istio-cni");
        assert_eq!(with_ours("a, b"), "a, b, default/istio-cni");
        assert_eq!(with_ours("a , default/istio-cni"), "a , default/istio-cni");
        let one = r#"[{"name": "a"}]"#;
        let both = r#"[{"name": "a"}, {"name": "istio-cni", "namespace": "default"}]"#;
        assert_eq!(with_ours(one), both);
        assert_eq!(with_ours(both), both);
    }

    #[test]
    fn what_is_no_list_stays() {
        assert_eq!(with_ours("[{]"), "[{]");
        assert_eq!(with_ours("[]"), r#"[, {"name": "istio-cni", "namespace": "default"}]"#);
    }
}
