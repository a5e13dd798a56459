// SPDX-License-Identifier: Apache-2.0
//! Owners and what they own: references, adoption, templates, readiness. Pure; shared by all controllers.

use std::borrow::Borrow;
use std::cmp::Reverse;

use apiserver::Timestamp;
use cluster::condition::{holding, is_ready};
use serde_json::{Value, json};

use super::actions::{Action, ObjectId};
use crate::fit;

/// The owner that controls an object.
#[must_use]
pub fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

/// Reference of an owner that controls.
#[must_use]
pub fn reference(api_version: &str, kind: &str, owner: &Value) -> Value {
    json!([{
        "apiVersion": api_version, "kind": kind, "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Objects that an owner controls, and what makes that true: orphans that its selector matches are adopted, objects that it no longer
/// matches are released.
pub fn claim<'a>(
    owner: &Value,
    (api_version, kind): (&str, &str),
    (of, all): (&'static str, &'a [impl Borrow<Value>]),
) -> (Vec<&'a Value>, Vec<Action>) {
    let uid = &owner["metadata"]["uid"];
    let (mut own, mut actions) = (Vec::new(), Vec::new());
    let here = |one: &&Value| one["metadata"]["namespace"] == owner["metadata"]["namespace"];
    for one in all.iter().map(Borrow::borrow).filter(here) {
        let matches = fit::selects(&owner["spec"]["selector"], &one["metadata"]["labels"]);
        let refer = |owners: Value| {
            Action::Merge(ObjectId::of(of, one), json!({ "metadata": { "ownerReferences": owners } }))
        };
        match controller(one) {
            Some(by) if by["uid"] == *uid && matches => own.push(one),
            Some(by) if by["uid"] == *uid => actions.push(refer(json!([]))),
            None if matches && !is_ending(one) && !is_ending(owner) => {
                actions.push(refer(reference(api_version, kind, owner)));
            }
            _ => {}
        }
    }
    (own, actions)
}

/// Text of an object's metadata.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// True if its deletion has begun.
#[must_use]
pub fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// True if a pod's containers have all ended for good.
#[must_use]
pub fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// True if a pod counts: neither over nor being deleted.
#[must_use]
pub fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_ending(pod)
}

/// True if a pod has been ready for `minReadySeconds` of its owner.
#[must_use]
pub fn is_available(owner: &Value, pod: &Value, now: Timestamp) -> bool {
    let Some(ready) = holding(pod, "Ready") else { return false };
    let least = owner["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    let since = ready["lastTransitionTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    least == 0 || since.is_some_and(|since| now.as_second() - since.as_second() >= least)
}

/// Hash of a pod template, in the form of a real one: 32 bits in letters that make no words.
#[must_use]
pub fn template_hash(template: &Value) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV-1a. A real controller hashes how Go prints the template, so hashes are not the same.
    let hash = template
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letter =
        |digit: u8| LETTERS.get(usize::from(digit) % LETTERS.len()).map_or('x', |letter| char::from(*letter));
    hash.to_string().bytes().map(letter).collect()
}

/// Pod of an owner's template.
#[must_use]
pub fn instance(owner: &Value, api_version: &str, kind: &str) -> Value {
    let mut pod = owner["spec"]["template"].clone();
    pod["metadata"]["namespace"] = owner["metadata"]["namespace"].clone();
    pod["metadata"]["ownerReferences"] = reference(api_version, kind, owner);
    if pod["metadata"]["name"].is_null() {
        pod["metadata"]["generateName"] = json!(format!("{}-", text(owner, "name")));
    }
    pod
}

/// Pods in the order in which a controller that has too many deletes them (`ActivePodsWithRanks`).
#[must_use]
pub fn dispensable<'a>(pods: &[&'a Value]) -> Vec<&'a Value> {
    let mut pods = pods.to_vec();
    let all = pods.clone();
    pods.sort_by_cached_key(|pod| {
        let node = &pod["spec"]["nodeName"];
        let phase = match pod["status"]["phase"].as_str() {
            Some("Running") => 2,
            Some("Pending") | None => 0,
            Some(_) => 1,
        };
        let cost = &pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"];
        let cost = cost.as_str().and_then(|cost| cost.parse::<i64>().ok()).unwrap_or(0);
        let beside = all.iter().filter(|one| one["spec"]["nodeName"] == *node).count();
        let since = holding(pod, "Ready").and_then(|ready| ready["lastTransitionTime"].as_str());
        let restarts = restarts(pod);
        let made = text(pod, "creationTimestamp").to_owned();
        let age = (Reverse(since.unwrap_or_default().to_owned()), Reverse(restarts), Reverse(made));
        (!node.is_null(), phase, is_ready(pod), cost, Reverse(beside), age)
    });
    pods
}

/// Number of restarts of a pod's containers.
#[must_use]
pub fn restarts(pod: &Value) -> u64 {
    let lists = ["initContainerStatuses", "containerStatuses"].map(|list| pod["status"][list].as_array());
    lists.into_iter().flatten().flatten().filter_map(|one| one["restartCount"].as_u64()).sum()
}

/// A number of a spec that has a default.
#[must_use]
pub fn number(object: &Value, field: &str, default: i64) -> i64 {
    object["spec"][field].as_i64().unwrap_or(default)
}

/// Length as the API writes it.
#[must_use]
pub fn count<T>(all: &[T]) -> i64 {
    i64::try_from(all.len()).unwrap_or(i64::MAX)
}

/// A list of conditions in which one is so; its transition time moves if its status does.
#[must_use]
pub fn with_condition(
    conditions: &Value,
    (kind, status): (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Value {
    let mut all = conditions.as_array().cloned().unwrap_or_default();
    let status = if status { "True" } else { "False" };
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let old = all.iter().position(|one| one["type"] == kind);
    let since = match old.and_then(|at| all.get(at)) {
        Some(one) if one["status"] == status => one["lastTransitionTime"].clone(),
        _ => json!(time),
    };
    let one = json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since });
    match old.and_then(|at| all.get_mut(at)) {
        Some(place) => *place = one,
        None => all.push(one),
    }
    json!(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: Option<&str>, ready: bool, made: &str) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({
            "metadata": { "name": name, "creationTimestamp": made },
            "spec": { "nodeName": node },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" }, "conditions": [{ "type": "Ready", "status": status }] },
        })
    }

    #[test]
    fn what_serves_least_goes_first() {
        let (waiting, unready) = (pod("waiting", None, false, "1"), pod("unready", Some("a"), false, "1"));
        let (old, young) = (pod("old", Some("a"), true, "1"), pod("young", Some("a"), true, "2"));
        let mut cheap = pod("cheap", Some("b"), true, "1");
        cheap["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = json!("-1");
        let order = dispensable(&[&old, &young, &cheap, &unready, &waiting]);
        let names: Vec<_> = order.into_iter().map(|pod| text(pod, "name")).collect();
        assert_eq!(names, ["waiting", "unready", "cheap", "young", "old"]);
    }

    #[test]
    fn orphans_are_adopted_and_strangers_released() {
        let owner = json!({
            "metadata": { "name": "cart", "namespace": "shop", "uid": "o" },
            "spec": { "selector": { "matchLabels": { "app": "cart" } } },
        });
        let of = |name: &str, app: &str, owner: Option<&str>| {
            let owners: Vec<_> =
                owner.map(|uid| json!({ "uid": uid, "controller": true })).into_iter().collect();
            json!({ "metadata": { "name": name, "namespace": "shop", "uid": name, "labels": { "app": app }, "ownerReferences": owners } })
        };
        let pods = [
            of("own", "cart", Some("o")),
            of("orphan", "cart", None),
            of("former", "x", Some("o")),
            of("other", "cart", Some("p")),
        ];
        let (own, actions) = claim(&owner, ("apps/v1", "ReplicaSet"), ("Pod", &pods));
        assert_eq!(own, [&pods[0]]);
        let adopted =
            json!({ "metadata": { "ownerReferences": reference("apps/v1", "ReplicaSet", &owner) } });
        let released = json!({ "metadata": { "ownerReferences": [] } });
        let merge = |pod: &Value, patch| Action::Merge(ObjectId::of("Pod", pod), patch);
        assert_eq!(actions, [merge(&pods[1], adopted), merge(&pods[2], released)]);
    }
}
