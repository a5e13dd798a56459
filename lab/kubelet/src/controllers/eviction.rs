// SPDX-License-Identifier: Apache-2.0
//! Pods that have to leave a node because of a `NoExecute` taint: at once, or after `tolerationSeconds`.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::Timestamp;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{is_ending, text, with_condition};
use crate::fit;

fn taints(node: &Value) -> impl Iterator<Item = &Value> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    all.filter(|taint| taint["effect"] == "NoExecute")
}

/// True if a node has such a taint.
#[must_use]
pub fn evicts(node: &Value) -> bool {
    taints(node).next().is_some()
}

/// Decides for a node, given all pods. `since` has when a pod was first seen to be concerned, by UID: tolerations count from there.
#[must_use]
pub fn decide(
    node: &Value,
    pods: &[impl Borrow<Value>],
    since: &mut BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> Decision {
    let mut decision = Decision::default();
    let is_here = |pod: &&Value| pod["spec"]["nodeName"] == node["metadata"]["name"] && !is_ending(pod);
    for pod in pods.iter().map(Borrow::borrow).filter(is_here) {
        let uid = text(pod, "uid");
        let Some(stays) = stays(pod, node) else {
            since.remove(uid);
            continue;
        };
        let first = *since.entry(uid.to_owned()).or_insert(now);
        let passed = Duration::try_from(now.duration_since(first)).unwrap_or_default();
        let left = stays.saturating_sub(passed);
        if left.is_zero() {
            let why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
            let conditions =
                with_condition(&pod["status"]["conditions"], ("DisruptionTarget", true), why, now);
            let id = ObjectId::of("Pod", pod);
            decision.actions.push(Action::Status(id.clone(), json!({ "conditions": conditions })));
            decision.actions.push(Action::Delete(id));
        } else {
            decision.again = Some(decision.again.map_or(left, |again| again.min(left)));
        }
    }
    decision
}

/// Time that a pod may stay: `None` for ever.
fn stays(pod: &Value, node: &Value) -> Option<Duration> {
    let limit = |taint: &Value| match fit::toleration(&pod["spec"], taint) {
        None => Some(Duration::ZERO),
        Some(toleration) => {
            let seconds = toleration["tolerationSeconds"].as_i64()?;
            Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        }
    };
    taints(node).filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_goes_when_it_no_longer_tolerates_its_node() {
        let node = json!({
            "metadata": { "name": "a" },
            "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }, { "key": "other", "effect": "NoSchedule" }] },
        });
        let pod = |name: &str, tolerations: &Value| json!({ "metadata": { "name": name, "uid": name }, "spec": { "nodeName": "a", "tolerations": tolerations } });
        let pods = [
            pod("intolerant", &json!([])),
            pod("patient", &json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": 5 }])),
            pod("tolerant", &json!([{ "operator": "Exists" }])),
        ];
        let (mut since, start) = (BTreeMap::new(), Timestamp::UNIX_EPOCH);
        let mut gone = |seconds: i64| -> (Vec<String>, Option<Duration>) {
            let now = Timestamp::from_second(start.as_second() + seconds).unwrap();
            let decision = decide(&node, &pods, &mut since, now);
            let deleted = decision.actions.into_iter().filter_map(|action| match action {
                Action::Delete(id) => Some(id.name),
                _ => None,
            });
            (deleted.collect(), decision.again)
        };
        assert_eq!(gone(0), (vec!["intolerant".to_owned()], Some(Duration::from_secs(5))));
        assert_eq!(gone(5), (vec!["intolerant".to_owned(), "patient".to_owned()], None));
    }
}
