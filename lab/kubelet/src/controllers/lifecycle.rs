// SPDX-License-Identifier: Apache-2.0
//! Taints that follow a node's conditions `Ready` and `MemoryPressure`: what is not started on a node that is not ready, or short of memory.
//! For the first the real controller sets one with the effect `NoExecute` as well, which pods tolerate for five minutes by default.

use serde_json::{Value, json};

use super::actions::{Action, ObjectId};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

fn taints(node: &Value) -> &[Value] {
    node["spec"]["taints"].as_array().map_or(&[], Vec::as_slice)
}

fn is_ours(taint: &Value) -> bool {
    let ours = [NOT_READY, UNREACHABLE, MEMORY_PRESSURE];
    taint["effect"] == "NoSchedule" && ours.iter().any(|key| taint["key"] == *key)
}

/// The taints that a node should have; nothing is decided for one that no kubelet reports.
fn wanted(node: &Value) -> Option<Vec<&'static str>> {
    node["status"]["nodeInfo"]["kubeletVersion"].as_str()?;
    let conditions = node["status"]["conditions"].as_array()?;
    let status = |kind: &str| conditions.iter().find(|one| one["type"] == kind)?["status"].as_str();
    conditions.iter().find(|one| one["type"] == "Ready")?;
    let of_ready = match status("Ready") {
        Some("True") => None,
        Some("False") => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    };
    let of_memory = (status("MemoryPressure") == Some("True")).then_some(MEMORY_PRESSURE);
    Some(of_ready.into_iter().chain(of_memory).collect())
}

/// Decides for a node: its taints, if they are others.
#[must_use]
pub fn decide(node: &Value) -> Option<Action> {
    let wanted = wanted(node)?;
    let has = taints(node).iter().filter(|taint| is_ours(taint)).filter_map(|taint| taint["key"].as_str());
    if has.eq(wanted.iter().copied()) {
        return None;
    }
    let mut taints: Vec<Value> = taints(node).iter().filter(|taint| !is_ours(taint)).cloned().collect();
    taints.extend(wanted.iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })));
    // Nobody else's taint gets lost: who changed the node meanwhile wins, and it is decided again.
    let version = &node["metadata"]["resourceVersion"];
    let change = json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } });
    Some(Action::Merge(ObjectId::of("Node", node), change))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, taints: &Value) -> Value {
        json!({
            "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" },
            "spec": { "taints": taints },
            "status": {
                "nodeInfo": { "kubeletVersion": "v1" },
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        })
    }

    fn keys(action: Option<Action>) -> Option<Vec<String>> {
        let Some(Action::Merge(_, change)) = action else { return None };
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        let taints = change["spec"]["taints"].as_array().unwrap();
        Some(taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn a_nodes_taint_follows_its_condition_and_leaves_others_alone() {
        let other = json!({ "key": "a", "effect": "NoSchedule" });
        let not_ready = json!({ "key": NOT_READY, "effect": "NoSchedule" });
        let both = json!([other, not_ready]);
        let of = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
        assert_eq!(keys(decide(&node("True", &json!([other])))), None);
        assert_eq!(keys(decide(&node("False", &json!([other])))), of(&["a", NOT_READY]));
        assert_eq!(keys(decide(&node("False", &both))), None);
        assert_eq!(keys(decide(&node("Unknown", &both))), of(&["a", UNREACHABLE]));
        assert_eq!(keys(decide(&node("True", &both))), of(&["a"]));
        let mut short = node("True", &both);
        let pressure = json!({ "type": "MemoryPressure", "status": "True" });
        short["status"]["conditions"].as_array_mut().unwrap().push(pressure);
        assert_eq!(keys(decide(&short)), of(&["a", MEMORY_PRESSURE]));
        short["status"]["conditions"][1]["status"] = json!("False");
        assert_eq!(keys(decide(&short)), of(&["a"]));
    }

    #[test]
    fn a_node_that_no_kubelet_reports_is_left_alone() {
        let mut node = node("False", &json!([]));
        node["status"]["nodeInfo"] = json!({});
        assert_eq!(decide(&node), None);
    }
}
