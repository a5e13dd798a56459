// SPDX-License-Identifier: Apache-2.0
//! Scheduler: the node of a pod that has none, or the reasons why there is none. Pure but for [`bind`] and [`tell`].
//!
//! Filters are those of a real one that look at nodes and other pods: `spec.unschedulable`, selector and node affinity, taints, required
//! affinity and anti-affinity of pods. Of the nodes that are left it takes the one with the fewest pods of the same controller, then with
//! the fewest pods. Not here: resources, volumes, host ports, preferences, topology spread constraints, preemption, gates.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use apiserver::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::controllers::actions::{create, write_status};
use crate::controllers::owned::{controller, is_over, text};
use crate::fit;

/// The node for a pod, or why there is none, in the words of a real scheduler.
///
/// # Errors
/// The message of the condition and the event.
pub fn place(
    pod: &Value,
    nodes: &[impl Borrow<Value>],
    pods: &[impl Borrow<Value>],
) -> Result<String, String> {
    let nodes: Vec<&Value> = nodes.iter().map(Borrow::borrow).collect();
    let pods: Vec<&Value> = pods.iter().map(Borrow::borrow).collect();
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut taken: Vec<&Value> = Vec::new();
    for node in &nodes {
        match refusal(pod, node, &nodes, &pods) {
            None => taken.push(node),
            Some(why) => *refusals.entry(why).or_default() += 1,
        }
    }
    let load = |node: &Value| {
        let here = pods.iter().filter(|one| is_on(one, node) && !is_over(one));
        let siblings = here.clone().filter(|one| controller(pod).is_some() && uid_of(one) == uid_of(pod));
        (siblings.count(), here.count(), text(node, "name").to_owned())
    };
    if let Some(node) = taken.into_iter().min_by_key(|node| load(node)) {
        return Ok(text(node, "name").to_owned());
    }
    let mut reasons: Vec<_> = refusals.into_iter().map(|(why, count)| format!("{count} {why}")).collect();
    reasons.sort();
    let count = nodes.len();
    Err(format!(
        "0/{count} nodes are available: {}. no new claims to deallocate, preemption: 0/{count} nodes are available: {count} Preemption is not helpful for scheduling.",
        reasons.join(", ")
    ))
}

fn uid_of(pod: &Value) -> Option<&Value> {
    controller(pod).map(|by| &by["uid"])
}

fn is_on(pod: &Value, node: &Value) -> bool {
    pod["spec"]["nodeName"] == node["metadata"]["name"]
}

/// First filter that a node does not pass.
fn refusal(pod: &Value, node: &Value, nodes: &[&Value], pods: &[&Value]) -> Option<String> {
    const CORDONED: &str = "node.kubernetes.io/unschedulable";
    let spec = &pod["spec"];
    let cordon = json!({ "key": CORDONED, "effect": "NoSchedule" });
    if node["spec"]["unschedulable"] == true && fit::toleration(spec, &cordon).is_none() {
        return Some("node(s) were unschedulable".to_owned());
    }
    if !fit::selected(spec, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    if fit::untolerated(spec, node).is_some() {
        return Some("node(s) had untolerated taint(s)".to_owned());
    }
    let near = |term: &Value| met(pod, term, node, nodes, pods);
    let terms = |which: &str| {
        let terms = &spec["affinity"][which]["requiredDuringSchedulingIgnoredDuringExecution"];
        terms.as_array().cloned().unwrap_or_default()
    };
    if !terms("podAffinity").iter().all(near) {
        return Some("node(s) didn't match pod affinity rules".to_owned());
    }
    if terms("podAntiAffinity").iter().any(near) {
        return Some("node(s) didn't match pod anti-affinity rules".to_owned());
    }
    None
}

/// True if a pod that the term means is in the node's domain.
fn met(pod: &Value, term: &Value, node: &Value, nodes: &[&Value], pods: &[&Value]) -> bool {
    let key = term["topologyKey"].as_str().unwrap_or_default();
    let domain = |node: &Value| node["metadata"]["labels"][key].as_str().map(str::to_owned);
    let Some(here) = domain(node) else { return false };
    let namespace = |one: &Value| match term["namespaces"].as_array() {
        Some(names) if !names.is_empty() => names.contains(&one["metadata"]["namespace"]),
        _ => one["metadata"]["namespace"] == pod["metadata"]["namespace"],
    };
    let meant = pods.iter().filter(|one| !is_over(one) && namespace(one));
    let mut meant = meant.filter(|one| fit::selects(&term["labelSelector"], &one["metadata"]["labels"]));
    meant.any(|one| nodes.iter().any(|node| is_on(one, node) && domain(node).as_ref() == Some(&here)))
}

/// Binds a pod to a node.
pub async fn bind(client: &kube::Client, pod: &Value, node: &str) {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": text(pod, "name") },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), text(pod, "namespace"));
    // A pod that is gone or bound meanwhile needs no node of ours.
    let _: Result<Value, _> =
        pods.create_subresource("binding", text(pod, "name"), &PostParams::default(), &binding).await;
}

/// Reports why a pod has no node: its condition `PodScheduled`, and an event. Once for each reason.
pub async fn tell(client: &kube::Client, pod: &Value, message: &str) {
    let told = pod["status"]["conditions"].as_array();
    if told.is_some_and(|told| told.iter().any(|one| one["message"] == message)) {
        return;
    }
    let now = Timestamp::now();
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
    });
    let patch = json!({ "status": { "conditions": [condition] } });
    // One that is gone meanwhile needs no word.
    let _ = write_status(client, ("Pod", text(pod, "namespace"), text(pod, "name")), patch).await;
    let event = json!({
        "metadata": { "generateName": format!("{}.", text(pod, "name")), "namespace": text(pod, "namespace") },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": text(pod, "namespace"),
            "name": text(pod, "name"), "uid": text(pod, "uid"),
        },
        "type": "Warning", "reason": "FailedScheduling", "message": message,
        "source": { "component": "default-scheduler" },
        "firstTimestamp": now.to_string(), "lastTimestamp": now.to_string(), "count": 1,
    });
    // Nobody waits for an event.
    let _ = create(client, "Event", event).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Value; 0] = [];

    fn node(name: &str, spec: &Value) -> Value {
        json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } }, "spec": spec })
    }

    fn pod(name: &str, on: Option<&str>, owner: &str) -> Value {
        json!({
            "metadata": {
                "name": name, "namespace": "shop", "labels": { "app": owner },
                "ownerReferences": [{ "uid": owner, "controller": true }],
            },
            "spec": { "nodeName": on },
        })
    }

    #[test]
    fn pods_of_a_controller_spread_before_nodes_fill_evenly() {
        let nodes = [node("a", &json!({})), node("b", &json!({}))];
        let there = [pod("1", Some("a"), "cart"), pod("2", Some("b"), "x"), pod("3", Some("b"), "x")];
        assert_eq!(place(&pod("n", None, "cart"), &nodes, &there), Ok("b".to_owned()));
        assert_eq!(place(&pod("n", None, "new"), &nodes, &there), Ok("a".to_owned()));
    }

    #[test]
    fn reasons_are_counted_in_the_words_of_the_real_one() {
        let nodes = [
            node("a", &json!({ "unschedulable": true })),
            node("b", &json!({ "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] })),
            node("c", &json!({ "unschedulable": true })),
        ];
        let why = place(&pod("n", None, "cart"), &nodes, &NONE).unwrap_err();
        let wanted = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) were unschedulable. no new claims to deallocate, \
                      preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        assert_eq!(why, wanted);
        let why = place(&pod("n", None, "cart"), &NONE, &NONE).unwrap_err();
        assert_eq!(why, "no nodes available to schedule pods");
    }

    #[test]
    fn a_pod_keeps_away_from_those_it_avoids_and_close_to_those_it_needs() {
        let nodes = [node("a", &json!({})), node("b", &json!({}))];
        let there = [pod("1", Some("a"), "cart")];
        let term = |app: &str| json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } });
        let required = |app: &str| json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term(app)] });
        let mut apart = pod("n", None, "cart");
        apart["spec"]["affinity"]["podAntiAffinity"] = required("cart");
        assert_eq!(place(&apart, &nodes, &there), Ok("b".to_owned()));
        let mut close = pod("n", None, "x");
        close["spec"]["affinity"]["podAffinity"] = required("cart");
        assert_eq!(place(&close, &nodes, &there), Ok("a".to_owned()));
        assert!(
            place(&close, &nodes, &NONE).unwrap_err().contains("2 node(s) didn't match pod affinity rules")
        );
    }
}
