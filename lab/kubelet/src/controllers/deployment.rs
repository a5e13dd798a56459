// SPDX-License-Identifier: Apache-2.0
//! The ReplicaSets of a Deployment: one for each template, scaled so that a change of the template rolls through.
//!
//! Not here: `progressDeadlineSeconds`, proportional scaling of several sets at once, rollback.

use std::borrow::Borrow;

use apiserver::Timestamp;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{self, text, with_condition};

const API_VERSION: &str = "apps/v1";
const KIND: &str = "Deployment";
/// Label of pods and sets with the hash of their template.
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment with the sets that it controls.
struct Rollout<'a> {
    deployment: &'a Value,
    current: Option<&'a Value>,
    /// Sets of former templates, the oldest first.
    former: Vec<&'a Value>,
    wanted: i64,
    surge: i64,
    unavailable: i64,
}

/// Decides for a Deployment, given the sets that it controls, and all pods.
#[must_use]
pub fn decide(deployment: &Value, sets: &[&Value], pods: &[impl Borrow<Value>], now: Timestamp) -> Decision {
    let rollout = Rollout::new(deployment, sets);
    let mut decision = Decision::default();
    if !owned::is_ending(deployment) {
        decision.actions = rollout.actions(pods);
    }
    decision.report(KIND, deployment, rollout.status(now));
    decision
}

impl<'a> Rollout<'a> {
    fn new(deployment: &'a Value, sets: &[&'a Value]) -> Self {
        let mut sets = sets.to_vec();
        sets.sort_by_key(|set| (text(set, "creationTimestamp"), text(set, "name")));
        let current = sets.iter().copied().find(|set| is_of(set, &deployment["spec"]["template"]));
        let same = |set: &&Value| {
            current.is_some_and(|current| current["metadata"]["uid"] == set["metadata"]["uid"])
        };
        let former = sets.into_iter().filter(|set| !same(set)).collect();
        let wanted = owned::number(deployment, "replicas", 1);
        let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
        let surge = part_of(&rolling["maxSurge"], wanted, Round::Up);
        let unavailable = part_of(&rolling["maxUnavailable"], wanted, Round::Down);
        // Both may round to nothing; then nothing would ever move.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self { deployment, current, former, wanted, surge, unavailable }
    }

    fn actions(&self, pods: &[impl Borrow<Value>]) -> Vec<Action> {
        if self.deployment["spec"]["paused"] == true {
            return self.current.and_then(|set| scaled(set, self.wanted)).into_iter().collect();
        }
        if self.deployment["spec"]["strategy"]["type"] == "Recreate" {
            self.recreate(pods)
        } else {
            self.roll()
        }
    }

    fn recreate(&self, pods: &[impl Borrow<Value>]) -> Vec<Action> {
        let down: Vec<_> = self.former.iter().filter_map(|set| scaled(set, 0)).collect();
        let still_there = |pod: &Value| {
            let by = owned::controller(pod).map(|by| &by["uid"]);
            !owned::is_over(pod) && self.former.iter().any(|set| by == Some(&set["metadata"]["uid"]))
        };
        if !down.is_empty() || pods.iter().map(Borrow::borrow).any(still_there) {
            return down;
        }
        match self.current {
            Some(set) => scaled(set, self.wanted).or_else(|| self.oldest()).into_iter().collect(),
            None => vec![self.new_set(self.wanted)],
        }
    }

    /// One step: the new set grows first; old ones shrink as far as availability permits.
    fn roll(&self) -> Vec<Action> {
        let all = self.sum(replicas);
        let room = (self.wanted + self.surge - all).max(0);
        let Some(current) = self.current else { return vec![self.new_set(room.min(self.wanted))] };
        let has = replicas(current);
        let grown = if has > self.wanted { self.wanted } else { has + room.min(self.wanted - has) };
        if let Some(action) = scaled(current, grown) {
            return vec![action];
        }
        let down = self.shrink(all, current);
        if down.is_empty() { self.oldest().into_iter().collect() } else { down }
    }

    fn shrink(&self, all: i64, current: &Value) -> Vec<Action> {
        let least = self.wanted - self.unavailable;
        let unavailable = replicas(current) - reported(current, "availableReplicas");
        let mut spare = all - least - unavailable;
        let mut sizes: Vec<_> = self.former.iter().map(|set| (*set, replicas(set))).collect();
        // Pods that serve nobody go first.
        for (set, size) in &mut sizes {
            let idle = (*size - reported(set, "availableReplicas")).clamp(0, spare.max(0));
            *size -= idle;
            spare -= idle;
        }
        let mut above = (self.sum(|set| reported(set, "availableReplicas")) - least).min(spare).max(0);
        for (_, size) in &mut sizes {
            let fewer = (*size).min(above);
            *size -= fewer;
            above -= fewer;
        }
        sizes.into_iter().filter_map(|(set, size)| scaled(set, size)).collect()
    }

    fn sum(&self, of: impl Fn(&Value) -> i64) -> i64 {
        self.current.iter().chain(&self.former).map(|set| of(set)).sum()
    }

    /// The oldest set beyond `revisionHistoryLimit`, once nothing of it is left.
    fn oldest(&self) -> Option<Action> {
        let limit = owned::number(self.deployment, "revisionHistoryLimit", 10);
        let empty =
            |set: &&&Value| replicas(set) == 0 && reported(set, "replicas") == 0 && !owned::is_ending(set);
        let over = owned::count(&self.former) > limit;
        let first = self.former.iter().find(empty).filter(|_| over)?;
        Some(Action::Delete(ObjectId::of("ReplicaSet", first)))
    }

    fn new_set(&self, replicas: i64) -> Action {
        let (deployment, name) = (self.deployment, text(self.deployment, "name"));
        let mut template = deployment["spec"]["template"].clone();
        let hash = owned::template_hash(&template);
        template["metadata"]["labels"][HASH] = json!(hash);
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"][HASH] = json!(hash);
        let last = self.former.iter().filter_map(|set| revision(set)).max().unwrap_or(0);
        let set = json!({
            "metadata": {
                "name": format!("{name}-{hash}"),
                "namespace": deployment["metadata"]["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": { REVISION: (last + 1).to_string() },
                "ownerReferences": owned::reference(API_VERSION, KIND, deployment),
            },
            "spec": {
                "replicas": replicas, "selector": selector, "template": template,
                "minReadySeconds": owned::number(deployment, "minReadySeconds", 0),
            },
        });
        Action::Create("ReplicaSet", set)
    }

    fn status(&self, now: Timestamp) -> Value {
        let of = |field: &str| self.sum(|set| reported(set, field));
        let updated = self.current.map_or(0, |set| reported(set, "replicas"));
        let (all, available) = (of("replicas"), of("availableReplicas"));
        let enough = available >= self.wanted - self.unavailable;
        let why = match enough {
            true => ("MinimumReplicasAvailable", "Deployment has minimum availability."),
            false => ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
        };
        let conditions = &self.deployment["status"]["conditions"];
        let mut conditions = with_condition(conditions, ("Available", enough), why, now);
        if let Some(set) = self.current {
            let name = text(set, "name");
            let done = updated == self.wanted && all == self.wanted && available == self.wanted;
            let (reason, message) = match done {
                true => {
                    ("NewReplicaSetAvailable", format!("ReplicaSet \"{name}\" has successfully progressed."))
                }
                false => ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing.")),
            };
            conditions = with_condition(&conditions, ("Progressing", true), (reason, &message), now);
        }
        json!({
            "observedGeneration": self.deployment["metadata"]["generation"],
            "replicas": all, "updatedReplicas": updated, "readyReplicas": of("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": (self.sum(replicas) - available).max(0),
            "conditions": conditions,
        })
    }
}

/// True if a set is of a template: but for the hash among its labels it has the same.
fn is_of(set: &Value, template: &Value) -> bool {
    let mut own = set["spec"]["template"].clone();
    if let Some(labels) = own["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH);
    }
    own == *template
}

fn replicas(set: &Value) -> i64 {
    owned::number(set, "replicas", 1)
}

fn reported(set: &Value, field: &str) -> i64 {
    set["status"][field].as_i64().unwrap_or(0)
}

fn revision(set: &Value) -> Option<u64> {
    set["metadata"]["annotations"][REVISION].as_str()?.parse().ok()
}

fn scaled(set: &Value, to: i64) -> Option<Action> {
    let patch = || Action::Merge(ObjectId::of("ReplicaSet", set), json!({ "spec": { "replicas": to } }));
    (replicas(set) != to).then(patch)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Up,
    Down,
}

/// A number, or a percentage of all; 25% unless it is said.
fn part_of(value: &Value, all: i64, round: Round) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok()).unwrap_or(25);
    let hundredths = all * percent;
    if round == Round::Up { (hundredths + 99) / 100 } else { hundredths / 100 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(image: &str, replicas: i64, strategy: &Value) -> Value {
        json!({
            "metadata": { "name": "cart", "namespace": "shop", "uid": "d", "generation": 1 },
            "spec": {
                "replicas": replicas, "strategy": strategy,
                "selector": { "matchLabels": { "app": "cart" } },
                "template": { "metadata": { "labels": { "app": "cart" } }, "spec": { "image": image } },
            },
        })
    }

    fn set(of: &Value, replicas: i64, available: i64) -> Value {
        let rollout = Rollout::new(of, &[]);
        let Action::Create(_, mut set) = rollout.new_set(replicas) else { panic!("it is created") };
        set["metadata"]["uid"] = set["metadata"]["name"].clone();
        set["status"] =
            json!({ "replicas": replicas, "availableReplicas": available, "readyReplicas": available });
        set
    }

    /// Sizes of sets after the actions: the new one's, the old one's.
    fn sizes(new: &Value, sets: &[&Value]) -> Vec<(String, i64)> {
        let actions = decide(new, sets, &[Value::Null; 0], Timestamp::UNIX_EPOCH).actions;
        let size = |action| match action {
            Action::Create(_, set) => Some(("new".to_owned(), replicas(&set))),
            Action::Merge(id, patch) => Some((id.name, patch["spec"]["replicas"].as_i64()?)),
            Action::Delete(id) => Some((id.name, -1)),
            Action::Status(..) => None,
        };
        actions.into_iter().filter_map(size).collect()
    }

    fn name(set: &Value) -> String {
        text(set, "name").to_owned()
    }

    #[test]
    fn the_first_set_is_as_large_as_wanted_and_bears_its_hash() {
        let deployment = deployment("1", 3, &Value::Null);
        assert_eq!(sizes(&deployment, &[]), [("new".to_owned(), 3)]);
        let set = set(&deployment, 3, 0);
        let hash = owned::template_hash(&deployment["spec"]["template"]);
        assert_eq!(name(&set), format!("cart-{hash}"));
        for place in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            assert_eq!(set.pointer(place).unwrap()[HASH], json!(hash), "{place}");
        }
        assert_eq!(sizes(&deployment, &[&set]), []);
    }

    #[test]
    fn an_update_rolls_within_surge_and_availability() {
        let strategy = json!({ "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
        let (before, after) = (deployment("1", 2, &strategy), deployment("2", 2, &strategy));
        let old = set(&before, 2, 2);
        assert_eq!(sizes(&after, &[&old]), [("new".to_owned(), 1)], "one more than wanted, no fewer");
        let new = set(&after, 1, 0);
        assert_eq!(sizes(&after, &[&old, &new]), [], "the new one is not available yet");
        let new = set(&after, 1, 1);
        assert_eq!(sizes(&after, &[&old, &new]), [(name(&old), 1)]);
        let old = set(&before, 1, 1);
        assert_eq!(sizes(&after, &[&old, &new]), [(name(&new), 2)]);
        let (old, new) = (set(&before, 1, 1), set(&after, 2, 2));
        assert_eq!(sizes(&after, &[&old, &new]), [(name(&old), 0)]);
    }

    #[test]
    fn old_pods_that_serve_nobody_go_first() {
        let strategy = json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 1 } });
        let (before, after) = (deployment("1", 3, &strategy), deployment("2", 3, &strategy));
        let (old, new) = (set(&before, 3, 2), set(&after, 0, 0));
        assert_eq!(sizes(&after, &[&old, &new]), [(name(&old), 2)]);
    }

    #[test]
    fn recreate_waits_until_the_last_old_pod_is_gone() {
        let strategy = json!({ "type": "Recreate" });
        let (before, after) = (deployment("1", 2, &strategy), deployment("2", 2, &strategy));
        let old = set(&before, 2, 2);
        assert_eq!(sizes(&after, &[&old]), [(name(&old), 0)]);
        let old = set(&before, 0, 0);
        let owners = owned::reference(API_VERSION, "ReplicaSet", &old);
        let pod = json!({ "metadata": { "ownerReferences": owners }, "status": { "phase": "Running" } });
        let decision = decide(&after, &[&old], std::slice::from_ref(&pod), Timestamp::UNIX_EPOCH);
        assert!(decision.actions.iter().all(|action| matches!(action, Action::Status(..))), "{decision:?}");
        assert_eq!(sizes(&after, &[&old]), [("new".to_owned(), 2)]);
    }

    #[test]
    fn parts_round_away_from_too_few() {
        let parts = |value: &Value| (part_of(value, 10, Round::Up), part_of(value, 10, Round::Down));
        assert_eq!(parts(&Value::Null), (3, 2));
        assert_eq!(parts(&json!("30%")), (3, 3));
        assert_eq!(parts(&json!(4)), (4, 4));
        let none = json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": "1%" } });
        let rollout = deployment("1", 3, &none);
        assert_eq!(Rollout::new(&rollout, &[]).unavailable, 1);
    }

    #[test]
    fn history_beyond_its_limit_goes() {
        let mut after = deployment("3", 1, &Value::Null);
        after["spec"]["revisionHistoryLimit"] = json!(0);
        let (old, new) = (set(&deployment("1", 1, &Value::Null), 0, 0), set(&after, 1, 1));
        assert_eq!(sizes(&after, &[&old, &new]), [(name(&old), -1)]);
    }
}
