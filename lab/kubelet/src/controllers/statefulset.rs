// SPDX-License-Identifier: Apache-2.0
//! Pods with names that stay: `web-0`, `web-1`, made in this order, each once those before it are ready, and ended in the reverse.
//!
//! Not here: volume claims, and ControllerRevisions: a pod below `partition` that is made anew has the new template.

use apiserver::Timestamp;
use cluster::condition::is_ready;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{self, text};

const API_VERSION: &str = "apps/v1";
const KIND: &str = "StatefulSet";
/// Label with the revision of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// Decides for a set, given the pods that it controls.
#[must_use]
pub fn decide(set: &Value, pods: &[&Value], now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if !owned::is_ending(set) {
        decision.actions = actions(set, pods);
    }
    let here: Vec<_> = pods.iter().filter(|pod| !owned::is_over(pod)).collect();
    let is = |revision: &str| here.iter().filter(|pod| is_of(pod, revision)).count();
    let update = revision(set);
    let current = set["status"]["currentRevision"].as_str().unwrap_or(&update);
    let updated = is(&update);
    let whole = updated == pods.len() && owned::count(pods) == owned::number(set, "replicas", 1);
    let status = json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": here.len(),
        "readyReplicas": here.iter().filter(|pod| is_ready(pod)).count(),
        "availableReplicas": here.iter().filter(|pod| owned::is_available(set, pod, now)).count(),
        "currentReplicas": if whole { updated } else { is(current) },
        "updatedReplicas": updated,
        "currentRevision": if whole { &update } else { current },
        "updateRevision": update,
    });
    decision.report(KIND, set, status);
    decision
}

fn actions(set: &Value, pods: &[&Value]) -> Vec<Action> {
    let parallel = set["spec"]["podManagementPolicy"] == "Parallel";
    let wanted = owned::number(set, "replicas", 1);
    let gone = |pod: &Value| Action::Delete(ObjectId::of("Pod", pod));
    let mut actions = Vec::new();
    for number in 0..wanted {
        match pods.iter().find(|pod| ordinal(set, pod) == Some(number)) {
            None => actions.push(Action::Create("Pod", instance(set, number))),
            Some(pod) if owned::is_over(pod) && !owned::is_ending(pod) => actions.push(gone(pod)),
            Some(pod) if owned::is_active(pod) && is_ready(pod) => continue,
            Some(_) => {}
        }
        if !parallel {
            return actions;
        }
    }
    let mut surplus: Vec<_> =
        pods.iter().filter(|pod| ordinal(set, pod).is_none_or(|number| number >= wanted)).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
    let last = if parallel { surplus.len() } else { 1 };
    let told = surplus.iter().take(last).filter(|pod| !owned::is_ending(pod));
    actions.extend(told.map(|pod| gone(pod)));
    if actions.is_empty() && surplus.is_empty() {
        actions.extend(updated(set, pods, wanted).map(gone));
    }
    actions
}

/// Pod whose turn it is in a rolling update: from the last one down, each once those behind it are ready.
fn updated<'a>(set: &Value, pods: &[&'a Value], wanted: i64) -> Option<&'a Value> {
    let strategy = &set["spec"]["updateStrategy"];
    if strategy["type"] == "OnDelete" {
        return None;
    }
    let first = strategy["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
    let revision = revision(set);
    for number in (first..wanted).rev() {
        let pod = pods.iter().find(|pod| ordinal(set, pod) == Some(number))?;
        if !is_of(pod, &revision) {
            return (!owned::is_ending(pod)).then_some(*pod);
        }
        if !(owned::is_active(pod) && is_ready(pod)) {
            return None;
        }
    }
    None
}

fn is_of(pod: &Value, revision: &str) -> bool {
    pod["metadata"]["labels"][REVISION] == *revision
}

fn revision(set: &Value) -> String {
    format!("{}-{}", text(set, "name"), owned::template_hash(&set["spec"]["template"]))
}

fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    text(pod, "name").strip_prefix(text(set, "name"))?.strip_prefix('-')?.parse().ok()
}

fn instance(set: &Value, number: i64) -> Value {
    let name = format!("{}-{number}", text(set, "name"));
    let mut pod = owned::instance(set, API_VERSION, KIND);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    let labels = &mut pod["metadata"]["labels"];
    labels[REVISION] = json!(revision(set));
    labels["statefulset.kubernetes.io/pod-name"] = json!(name);
    labels["apps.kubernetes.io/pod-index"] = json!(number.to_string());
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    pod["metadata"]["name"] = json!(name);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(image: &str, replicas: i64) -> Value {
        json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "s" },
            "spec": { "replicas": replicas, "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "image": image } } },
        })
    }

    fn pod(of: &Value, number: i64, ready: &str) -> Value {
        let mut pod = instance(of, number);
        pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
        pod["status"] = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] });
        pod
    }

    /// `+web-0` is created, `-web-0` deleted.
    fn said(set: &Value, pods: &[&Value]) -> Vec<String> {
        let name = |action| match action {
            Action::Create(_, pod) => Some(format!("+{}", text(&pod, "name"))),
            Action::Delete(id) => Some(format!("-{}", id.name)),
            Action::Merge(..) | Action::Status(..) => None,
        };
        decide(set, pods, Timestamp::UNIX_EPOCH).actions.into_iter().filter_map(name).collect()
    }

    #[test]
    fn each_is_made_once_the_one_before_is_ready() {
        let set = set("1", 2);
        assert_eq!(said(&set, &[]), ["+web-0"]);
        let unready = pod(&set, 0, "False");
        assert_eq!(said(&set, &[&unready]), Vec::<String>::new());
        let ready = pod(&set, 0, "True");
        assert_eq!(said(&set, &[&ready]), ["+web-1"]);
    }

    #[test]
    fn in_parallel_nobody_waits() {
        let mut set = set("1", 2);
        set["spec"]["podManagementPolicy"] = json!("Parallel");
        assert_eq!(said(&set, &[]), ["+web-0", "+web-1"]);
    }

    #[test]
    fn a_pod_that_is_over_is_replaced_under_its_name() {
        let set = set("1", 2);
        let mut failed = pod(&set, 0, "False");
        failed["status"]["phase"] = json!("Failed");
        assert_eq!(said(&set, &[&failed, &pod(&set, 1, "True")]), ["-web-0"]);
        failed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(said(&set, &[&failed]), Vec::<String>::new(), "its name is taken until it is gone");
    }

    #[test]
    fn surplus_goes_from_the_last_one_down() {
        let (two, one) = (set("1", 2), set("1", 1));
        let three = [pod(&two, 0, "True"), pod(&two, 1, "True"), pod(&two, 2, "True")];
        assert_eq!(said(&one, &three.iter().collect::<Vec<_>>()), ["-web-2"]);
    }

    #[test]
    fn an_update_rolls_from_the_last_one_down() {
        let (old, new) = (set("1", 2), set("2", 2));
        let (first, last) = (pod(&old, 0, "True"), pod(&old, 1, "True"));
        assert_eq!(said(&new, &[&first, &last]), ["-web-1"]);
        assert_eq!(said(&new, &[&first, &pod(&new, 1, "False")]), Vec::<String>::new());
        assert_eq!(said(&new, &[&first, &pod(&new, 1, "True")]), ["-web-0"]);
        let mut part = new.clone();
        part["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
        assert_eq!(said(&part, &[&first, &pod(&new, 1, "True")]), Vec::<String>::new());
    }
}
