// SPDX-License-Identifier: Apache-2.0
//! As many pods of a template as a ReplicaSet wants.

use std::time::Duration;

use apiserver::Timestamp;
use cluster::condition::is_ready;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{self, count};

const API_VERSION: &str = "apps/v1";
const KIND: &str = "ReplicaSet";

/// Decides for a set, given the pods that it controls.
#[must_use]
pub fn decide(set: &Value, pods: &[&Value], now: Timestamp) -> Decision {
    let active: Vec<_> = pods.iter().copied().filter(|pod| owned::is_active(pod)).collect();
    let mut decision = Decision::default();
    if !owned::is_ending(set) {
        let wanted = owned::number(set, "replicas", 1);
        let missing = usize::try_from(wanted - count(&active)).unwrap_or(0);
        let instance = || Action::Create("Pod", owned::instance(set, API_VERSION, KIND));
        decision.actions.extend(std::iter::repeat_with(instance).take(missing));
        let surplus = usize::try_from(count(&active) - wanted).unwrap_or(0);
        let deleted = owned::dispensable(&active).into_iter().take(surplus);
        decision.actions.extend(deleted.map(|pod| Action::Delete(ObjectId::of("Pod", pod))));
    }
    let ready: Vec<_> = active.iter().filter(|pod| is_ready(pod)).collect();
    let available = ready.iter().filter(|pod| owned::is_available(set, pod, now)).count();
    if available < ready.len() {
        decision.again = Some(Duration::from_secs(1));
    }
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object();
    let labelled = active.iter().filter(|pod| {
        labels.into_iter().flatten().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    });
    let status = json!({
        "replicas": active.len(), "fullyLabeledReplicas": labelled.count(), "readyReplicas": ready.len(),
        "availableReplicas": available, "observedGeneration": set["metadata"]["generation"],
    });
    decision.report(KIND, set, status);
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": { "name": "cart", "namespace": "shop", "uid": "s", "generation": 1 },
            "spec": { "replicas": replicas, "template": { "metadata": { "labels": { "app": "cart" } }, "spec": {} } },
        })
    }

    fn pod(name: &str, phase: &str) -> Value {
        json!({
            "metadata": { "name": name, "uid": name, "namespace": "shop", "labels": { "app": "cart" } },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        })
    }

    fn pods_of(decision: &Decision) -> Vec<Action> {
        let kept = decision.actions.iter().filter(|action| !matches!(action, Action::Status(..)));
        kept.cloned().collect()
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_over_or_being_deleted_is_missing() {
        let set = set(3);
        let (running, failed, mut leaving) = (pod("a", "Running"), pod("b", "Failed"), pod("c", "Running"));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let decision = decide(&set, &[&running, &failed, &leaving], Timestamp::UNIX_EPOCH);
        let one = Action::Create("Pod", owned::instance(&set, API_VERSION, KIND));
        assert_eq!(pods_of(&decision), [one.clone(), one]);
    }

    #[test]
    fn surplus_goes() {
        let (a, b) = (pod("a", "Running"), pod("b", "Pending"));
        let decision = decide(&set(1), &[&a, &b], Timestamp::UNIX_EPOCH);
        assert_eq!(pods_of(&decision), [Action::Delete(ObjectId::of("Pod", &b))]);
    }

    #[test]
    fn a_pod_is_available_once_it_was_ready_for_long_enough() {
        let mut set = set(1);
        set["spec"]["minReadySeconds"] = json!(10);
        let available = |time: &str| {
            let decision = decide(&set, &[&pod("a", "Running")], time.parse().unwrap());
            let Some(Action::Status(_, status)) = decision.actions.last() else { panic!("{decision:?}") };
            (status["readyReplicas"].clone(), status["availableReplicas"].clone(), decision.again.is_some())
        };
        assert_eq!(available("2026-01-01T00:00:09Z"), (json!(1), json!(0), true));
        assert_eq!(available("2026-01-01T00:00:10Z"), (json!(1), json!(1), false));
    }

    #[test]
    fn a_set_that_is_being_deleted_makes_nothing() {
        let mut set = set(1);
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(pods_of(&decide(&set, &[], Timestamp::UNIX_EPOCH)), []);
    }
}
