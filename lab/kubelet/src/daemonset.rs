// SPDX-License-Identifier: Apache-2.0
//! One pod on each node that a DaemonSet wants: made, replaced when its template changes, gone when the node no longer fits. That
//! its pods go with it is the API's business.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use apiserver::{ApiServer, Changes};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::error::Error;

/// Label with the hash of a pod's template.
const REVISION: &str = "controller-revision-hash";

/// Action of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates a pod on this node.
    Create(String),
    /// Deletes the pod of this name and uid.
    Delete(String, String),
}

/// The first wait after a failure; doubled for each that follows. A real controller's queue begins with 5 ms.
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// Maximum backoff. A real controller's queue goes up to 1000 s.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Follows DaemonSets, nodes and pods until it is aborted. What fails is tried again: a pod's account may not be there yet.
pub async fn run(api: ApiServer, mut changes: Changes) {
    let client = api.client();
    // Until there was a first set, nothing has to be looked for.
    let (mut any, mut wait) = (false, None);
    loop {
        let again = backed_off(wait.unwrap_or(Duration::MAX));
        let due = tokio::select! {
            () = again => true,
            change = changes.next() => match change {
                Ok(change) => {
                    any |= change.key.kind.name == "DaemonSet";
                    any && ["DaemonSet", "Node", "Pod"].contains(&change.key.kind.name)
                }
                Err(_) => {
                    // Only a controller that sleeps through the API's whole history comes here.
                    changes = api.subscribe();
                    true
                }
            },
        };
        if due {
            let failed = reconcile(&client).await.is_err();
            wait = failed.then(|| wait.map_or(FIRST_WAIT, |wait| (wait * 2).min(LAST_WAIT)));
        }
    }
}

async fn backed_off(time: Duration) {
    let _elapsed = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

async fn reconcile(client: &kube::Client) -> Result<(), Error> {
    let sets = list::<DaemonSet>(client).await?;
    let nodes = list::<Node>(client).await?;
    let pods = list::<Pod>(client).await?;
    for set in &sets {
        let own: Vec<_> = pods.iter().filter(|pod| owner(pod) == Some(&set["metadata"]["uid"])).collect();
        for action in decide(set, &nodes, &own) {
            act(client, set, &action).await?;
        }
        report(client, set, &nodes, &own).await?;
    }
    Ok(())
}

async fn list<K>(client: &kube::Client) -> Result<Vec<Value>, Error>
where
    K: kube::Resource<DynamicType = ()>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(all.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

fn owner(pod: &Value) -> Option<&Value> {
    pod["metadata"]["ownerReferences"].get(0).map(|owner| &owner["uid"])
}

/// Decides for a set, given all nodes and the set's own pods. Of pods with an old template, one goes at a time and only while all others
/// are ready.
#[must_use]
pub fn decide(set: &Value, nodes: &[Value], pods: &[&Value]) -> Vec<Action> {
    if !set["metadata"]["deletionTimestamp"].is_null() {
        return Vec::new();
    }
    let spec = &set["spec"]["template"]["spec"];
    let wanted: Vec<_> =
        nodes.iter().filter(|node| fits(spec, node)).map(|node| text(node, "name")).collect();
    let ending = |pod: &&&Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let mut actions = Vec::new();
    for node in &wanted {
        let here: Vec<_> = pods.iter().filter(|pod| pod["spec"]["nodeName"] == **node).collect();
        let over = |pod: &&&&Value| matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        actions.extend(here.iter().filter(|pod| !ending(pod)).filter(|pod| over(pod)).map(|pod| gone(pod)));
        if here.is_empty() {
            actions.push(Action::Create((*node).to_owned()));
        }
    }
    let lost = |pod: &&&Value| !wanted.iter().any(|node| pod["spec"]["nodeName"] == **node);
    actions.extend(pods.iter().filter(lost).filter(|pod| !ending(pod)).map(|pod| gone(pod)));
    let revision = revision(set);
    let old = |pod: &&&Value| pod["metadata"]["labels"][REVISION] != revision.as_str();
    let rolling = set["spec"]["updateStrategy"]["type"] != "OnDelete";
    let all_there = pods.len() >= wanted.len() && !pods.iter().any(|pod| ending(&pod));
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
    Action::Delete(text(pod, "name").to_owned(), text(pod, "uid").to_owned())
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// True if a node's labels match the pod's selector, and the pod tolerates its taints.
fn fits(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let selector = spec["nodeSelector"].as_object();
    let selected = selector.into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    let near = terms.is_none_or(|terms| terms.iter().any(|term| matches(term, node)));
    selected && near && untolerated(spec, node).is_none()
}

/// First taint of a node that the pod does not tolerate.
pub(crate) fn untolerated<'a>(spec: &Value, node: &'a Value) -> Option<&'a Value> {
    let taints = node["spec"]["taints"].as_array();
    let keeps_out = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
    let bears = |taint: &Value| {
        let all = spec["tolerations"].as_array();
        all.into_iter().flatten().any(|toleration| tolerates(toleration, taint))
    };
    taints.into_iter().flatten().filter(keeps_out).find(|taint| !bears(taint))
}

fn matches(term: &Value, node: &Value) -> bool {
    let holds = |expression: &Value, of: &Value| {
        let value = &of[expression["key"].as_str().unwrap_or_default()];
        let values = expression["values"].as_array();
        let listed = values.into_iter().flatten().any(|one| one == value);
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => !value.is_null(),
            Some("DoesNotExist") => value.is_null(),
            _ => false,
        }
    };
    let all = |list: &str, of: &Value| {
        term[list].as_array().into_iter().flatten().all(|expression| holds(expression, of))
    };
    let fields = json!({ "metadata.name": node["metadata"]["name"] });
    all("matchExpressions", &node["metadata"]["labels"]) && all("matchFields", &fields)
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let any = |field: &str| toleration[field].as_str().is_none_or(str::is_empty);
    let same = |field: &str| toleration[field] == taint[field];
    let key = (any("key") && toleration["operator"] == "Exists") || same("key");
    let value =
        toleration["operator"] == "Exists" || same("value") || (any("value") && taint["value"].is_null());
    key && value && (any("effect") || same("effect"))
}

/// Hash of a set's template.
fn revision(set: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    set["spec"]["template"].to_string().hash(&mut hasher);
    format!("{:08x}", hasher.finish() & 0xffff_ffff)
}

async fn act(client: &kube::Client, set: &Value, action: &Action) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), text(set, "namespace"));
    match action {
        Action::Create(node) => {
            let pod = serde_json::from_value(instance(set, node))?;
            pods.create(&PostParams::default(), &pod).await?;
        }
        Action::Delete(name, uid) => {
            let own = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(own), ..DeleteParams::default() };
            pods.delete(name, &params).await?;
        }
    }
    Ok(())
}

/// Pod of a set on a node.
fn instance(set: &Value, node: &str) -> Value {
    let mut pod = set["spec"]["template"].clone();
    let name = text(set, "name");
    pod["metadata"]["generateName"] = json!(format!("{name}-"));
    pod["metadata"]["namespace"] = set["metadata"]["namespace"].clone();
    pod["metadata"]["labels"][REVISION] = json!(revision(set));
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

async fn report(client: &kube::Client, set: &Value, nodes: &[Value], pods: &[&Value]) -> Result<(), Error> {
    let spec = &set["spec"]["template"]["spec"];
    let revision = revision(set);
    let wanted = nodes.iter().filter(|node| fits(spec, node)).count();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let updated = pods.iter().filter(|pod| pod["metadata"]["labels"][REVISION] == revision.as_str()).count();
    let status = json!({
        "currentNumberScheduled": pods.len(), "desiredNumberScheduled": wanted, "numberMisscheduled": 0,
        "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": updated,
        "observedGeneration": set["metadata"]["generation"],
    });
    if set["status"] == status {
        return Ok(());
    }
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), text(set, "namespace"));
    let patch = Patch::Merge(json!({ "status": status }));
    sets.patch_status(text(set, "name"), &PatchParams::default(), &patch).await?;
    Ok(())
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

    fn delete(node: &str) -> Action {
        Action::Delete(format!("d-{node}"), format!("u-{node}"))
    }

    #[test]
    fn every_node_that_fits_gets_one_pod() {
        let nodes = [
            node("a", "linux", &json!([{ "key": "a", "effect": "NoSchedule" }])),
            node("b", "plan9", &json!([])),
            node("c", "linux", &json!([{ "key": "b", "effect": "NoExecute" }])),
        ];
        let set = set("x");
        assert_eq!(decide(&set, &nodes, &[]), [Action::Create("a".to_owned())]);
        let there = pod(&set, "a", "False");
        assert_eq!(decide(&set, &nodes, &[&there]), []);
    }

    #[test]
    fn a_pod_goes_when_its_node_no_longer_fits() {
        let set = set("x");
        let there = pod(&set, "a", "True");
        assert_eq!(decide(&set, &[node("a", "plan9", &json!([]))], &[&there]), [delete("a")]);
    }

    #[test]
    fn old_pods_go_one_at_a_time() {
        let nodes = [node("a", "linux", &json!([])), node("b", "linux", &json!([]))];
        let (old, new) = (set("x"), set("y"));
        let (a, b) = (pod(&old, "a", "True"), pod(&old, "b", "True"));
        assert_eq!(decide(&new, &nodes, &[&a, &b]), [delete("a")]);
        let fresh = pod(&new, "a", "False");
        assert_eq!(decide(&new, &nodes, &[&fresh, &b]), [], "the new one is not ready yet");
        let fresh = pod(&new, "a", "True");
        assert_eq!(decide(&new, &nodes, &[&fresh, &b]), [delete("b")]);
    }

    #[test]
    fn affinity_is_any_of_its_terms_and_all_of_a_terms_expressions() {
        let spec = |operator: &str| {
            let expression = json!({ "key": "os", "operator": operator, "values": ["linux"] });
            let terms = json!([{ "matchExpressions": [expression] }]);
            let required = json!({ "nodeSelectorTerms": terms });
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } })
        };
        let node = node("a", "linux", &json!([]));
        assert!(fits(&spec("In"), &node) && !fits(&spec("NotIn"), &node) && fits(&spec("Exists"), &node));
    }
}
