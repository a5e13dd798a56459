// SPDX-License-Identifier: Apache-2.0
//! One pod on each node that a DaemonSet wants: made, replaced when its template changes, gone when the node no longer fits. That
//! its pods go with it is the API's business.

use std::borrow::Borrow;

use cluster::condition::is_ready;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{self, is_ending, is_over, text};
use crate::fit;

const KIND: &str = "DaemonSet";
/// Label with the hash of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// Decides for a set, given all nodes and the set's own pods. Of pods with an old template, one goes at a time and only while all others
/// are ready.
#[must_use]
pub fn decide(set: &Value, nodes: &[impl Borrow<Value>], pods: &[&Value]) -> Decision {
    let mut decision = Decision::default();
    if !is_ending(set) {
        decision.actions = actions(set, nodes, pods);
    }
    decision.report(KIND, set, status(set, nodes, pods));
    decision
}

fn actions(set: &Value, nodes: &[impl Borrow<Value>], pods: &[&Value]) -> Vec<Action> {
    let spec = &set["spec"]["template"]["spec"];
    let names = |which: fn(&Value, &Value) -> bool| -> Vec<&str> {
        nodes
            .iter()
            .map(Borrow::borrow)
            .filter(|node| which(spec, node))
            .map(|node| text(node, "name"))
            .collect()
    };
    let (wanted, kept) = (names(fits), names(keeps));
    let mut actions = Vec::new();
    for node in &wanted {
        let here: Vec<_> = pods.iter().filter(|pod| pod["spec"]["nodeName"] == **node).collect();
        let over = here.iter().filter(|pod| !is_ending(pod) && is_over(pod));
        actions.extend(over.map(|pod| gone(pod)));
        if here.is_empty() {
            actions.push(Action::Create("Pod", instance(set, node)));
        }
    }
    let lost = |pod: &&&Value| !kept.iter().any(|node| pod["spec"]["nodeName"] == **node);
    actions.extend(pods.iter().filter(lost).filter(|pod| !is_ending(pod)).map(|pod| gone(pod)));
    let revision = owned::template_hash(&set["spec"]["template"]);
    let old = |pod: &&&Value| pod["metadata"]["labels"][REVISION] != revision.as_str();
    let rolling = set["spec"]["updateStrategy"]["type"] != "OnDelete";
    let all_there = pods.len() >= wanted.len() && !pods.iter().any(|pod| is_ending(pod));
    let unready = |pod: &&&Value| !is_ready(pod);
    if actions.is_empty() && rolling && all_there {
        // One that is not ready anyway costs nothing.
        let first = pods.iter().filter(old).find(unready);
        let next = || pods.iter().find(old).filter(|_| pods.iter().all(|pod| is_ready(pod)));
        actions.extend(first.or_else(next).map(|pod| gone(pod)));
    }
    actions
}

fn gone(pod: &Value) -> Action {
    Action::Delete(ObjectId::of("Pod", pod))
}

/// True if a node's labels match the pod's selector, and the pod tolerates its taints.
fn fits(spec: &Value, node: &Value) -> bool {
    fit::selected(spec, node) && fit::untolerated(spec, node).is_none()
}

/// True if a pod that is there may stay: a taint that only keeps others from being started does not end it.
fn keeps(spec: &Value, node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut ending = taints.filter(|taint| taint["effect"] == "NoExecute");
    fit::selected(spec, node) && ending.all(|taint| fit::toleration(spec, taint).is_some())
}

/// Pod of a set on a node.
fn instance(set: &Value, node: &str) -> Value {
    let mut pod = owned::instance(set, "apps/v1", KIND);
    pod["metadata"]["labels"][REVISION] = json!(owned::template_hash(&set["spec"]["template"]));
    pod["spec"]["nodeName"] = json!(node);
    pod
}

fn status(set: &Value, nodes: &[impl Borrow<Value>], pods: &[&Value]) -> Value {
    let spec = &set["spec"]["template"]["spec"];
    let revision = owned::template_hash(&set["spec"]["template"]);
    let wanted = nodes.iter().filter(|node| fits(spec, (*node).borrow())).count();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let updated = pods.iter().filter(|pod| pod["metadata"]["labels"][REVISION] == revision.as_str()).count();
    json!({
        "currentNumberScheduled": pods.len(), "desiredNumberScheduled": wanted, "numberMisscheduled": 0,
        "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": updated,
        "observedGeneration": set["metadata"]["generation"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str) -> Value {
        json!({
            "metadata": { "name": "d", "uid": "s" },
            "spec": { "template": { "spec": {
                "nodeSelector": { "os": "linux" },
                "tolerations": [{ "key": "a", "operator": "Exists", "effect": "NoSchedule" }],
                "containers": [{ "image": image }],
            } } },
        })
    }

    fn node(name: &str, os: &str, taints: &Value) -> Value {
        json!({ "metadata": { "name": name, "labels": { "os": os } }, "spec": { "taints": taints } })
    }

    fn pod(of: &Value, node: &str, ready: &str) -> Value {
        let mut pod = instance(of, node);
        pod["metadata"]["name"] = json!(format!("d-{node}"));
        pod["metadata"]["uid"] = json!(format!("u-{node}"));
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": ready }]);
        pod
    }

    fn delete(pod: &Value) -> Action {
        Action::Delete(ObjectId::of("Pod", pod))
    }

    #[test]
    fn every_node_that_fits_gets_one_pod() {
        let nodes = [
            node("a", "linux", &json!([{ "key": "a", "effect": "NoSchedule" }])),
            node("b", "plan9", &json!([])),
            node("c", "linux", &json!([{ "key": "b", "effect": "NoExecute" }])),
        ];
        let set = set("x");
        assert_eq!(actions(&set, &nodes, &[]), [Action::Create("Pod", instance(&set, "a"))]);
        let there = pod(&set, "a", "False");
        assert_eq!(actions(&set, &nodes, &[&there]), []);
    }

    #[test]
    fn a_pod_goes_when_its_node_no_longer_fits() {
        let set = set("x");
        let there = pod(&set, "a", "True");
        assert_eq!(actions(&set, &[node("a", "plan9", &json!([]))], &[&there]), [delete(&there)]);
    }

    #[test]
    fn a_taint_ends_a_pod_only_if_it_says_so() {
        let set = set("x");
        let there = pod(&set, "a", "True");
        let with = |effect: &str| [node("a", "linux", &json!([{ "key": "b", "effect": effect }]))];
        assert_eq!(actions(&set, &with("NoSchedule"), &[&there]), []);
        assert_eq!(actions(&set, &with("NoExecute"), &[&there]), [delete(&there)]);
    }

    #[test]
    fn old_pods_go_one_at_a_time() {
        let nodes = [node("a", "linux", &json!([])), node("b", "linux", &json!([]))];
        let (old, new) = (set("x"), set("y"));
        let (a, b) = (pod(&old, "a", "True"), pod(&old, "b", "True"));
        assert_eq!(actions(&new, &nodes, &[&a, &b]), [delete(&a)]);
        let fresh = pod(&new, "a", "False");
        assert_eq!(actions(&new, &nodes, &[&fresh, &b]), [], "the new one is not ready yet");
        let fresh = pod(&new, "a", "True");
        assert_eq!(actions(&new, &nodes, &[&fresh, &b]), [delete(&b)]);
    }
}
