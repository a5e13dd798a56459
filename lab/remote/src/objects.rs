// SPDX-License-Identifier: Apache-2.0
//! Objects of any kind: applied, and removed in an order that leaves nothing behind.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use cluster::{Fetched, Leftovers};
use futures::future::join_all;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;
use crate::start::NOT_ASKED;
use crate::watch::until_gone;

/// An object of a type of the API.
pub(crate) fn from<T: DeserializeOwned>(object: Value) -> Result<T, Error> {
    Ok(serde_json::from_value(object)?)
}

/// Reason of the event of a pod that could not be taken down (kubelet, `FailedToKillPod`), whatever failed: the runtime may be away, or a container stay.
const NOT_TAKEN_DOWN: &str = "FailedKillPod";

/// Words of its message if the sandbox's network failed: the kubelet's for the action, and one that containerd and CRI-O have in theirs.
const OF_NETWORK: [&str; 2] = ["KillPodSandbox", "network"];

/// Field manager.
const MANAGER: &str = "cnilab";

/// Applies an object (server-side apply), and returns it as the API server has it.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<Value, Error> {
    let (api, name) = of(client, object).await?;
    let applied = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await;
    Ok(serde_json::to_value(applied.map_err(Error::api(format!("apply {} {name}", object["kind"])))?)?)
}

/// Removes those of the objects that are nodes, and the pods there: nobody else would confirm the end of these.
pub(crate) async fn remove_nodes(client: &Client, objects: &[Value]) -> Leftovers {
    let mut left = Leftovers::default();
    for object in objects.iter().filter(|object| object["kind"] == "Node") {
        left.note(remove_node(client, object["metadata"]["name"].as_str().unwrap_or_default()).await);
    }
    left
}

/// True if a kubelet has told of its node. A scenario's `Node` object has none.
pub(crate) fn has_kubelet(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| !info.kubelet_version.is_empty())
}

/// Removes the nodes with this label that scenarios made, with their pods, and returns their kinds and names. One with a kubelet has the label of a cordon.
pub(crate) async fn remove_made_nodes(client: &Client, label: &str, left: &mut Leftovers) -> Vec<String> {
    let mut nodes = labelled(&Api::<Node>::all(client.clone()), label, "Node", left).await;
    nodes.retain(|node| !has_kubelet(node));
    let mut gone = Vec::new();
    for name in nodes.iter().map(ResourceExt::name_any) {
        if left.note(remove_node(client, &name).await) {
            gone.push(format!("Node {name}"));
        }
    }
    gone
}

async fn remove_node(client: &Client, name: &str) -> Result<(), Error> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::all(client.clone()));
    unless_gone(nodes.delete(name, &DeleteParams::default()).await)
        .map_err(Error::api(format!("delete node {name}")))?;
    let of_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    for pod in pods.list(&of_node).await.map_err(Error::api("list pods"))? {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let name = pod.name_any();
        unless_gone(pods.delete(&name, &DeleteParams::default().grace_period(0)).await)
            .map_err(Error::api(format!("delete pod {name}")))?;
    }
    Ok(())
}

/// A deletion; that of what is gone already is right.
pub(crate) fn unless_gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Removes objects: DaemonSets and pods first, which may need the others to end. One that is gone already is right.
pub(crate) async fn remove(client: &Client, objects: &[Value], deadline: Duration) -> Leftovers {
    let (first, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object["kind"] == "DaemonSet" || object["kind"] == "Pod");
    let mut left = Leftovers::default();
    for object in first {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let gone = async {
            let (api, name) = of(client, object).await?;
            ended(&api, &name, &format!("{} {name}", object["kind"]), deadline).await
        };
        left.extend(judged(client, namespace, gone.await).await);
    }
    for object in others.into_iter().rev() {
        left.note(delete(client, object).await);
    }
    left
}

/// Deletes an object, and waits until it is gone with all that it owns.
async fn ended(api: &Api<DynamicObject>, name: &str, title: &str, deadline: Duration) -> Result<(), Error> {
    let failed = || Error::api(format!("delete {title}"));
    let Some(found) = api.get_opt(name).await.map_err(failed())? else { return Ok(()) };
    unless_gone(api.delete(name, &DeleteParams::foreground()).await).map_err(failed())?;
    until_gone(api, &found, || format!("the end of {title}"), deadline).await
}

async fn delete(client: &Client, object: &Value) -> Result<(), Error> {
    let (api, name) = of(client, object).await?;
    unless_gone(api.delete(&name, &DeleteParams::default()).await)
        .map_err(Error::api(format!("delete {} {name}", object["kind"])))
}

/// Removes objects with this label that run nothing, of the kinds that scenarios and the chart make: all that belong to no namespace, and those in all
/// namespaces but these, with which theirs go. Returns kinds and names.
pub(crate) async fn remove_others(
    client: &Client,
    label: &str,
    namespaces: &[String],
    left: &mut Leftovers,
) -> Vec<String> {
    let kinds = [
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<NetworkPolicy>(&()),
        ApiResource::erase::<ResourceQuota>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
    ];
    let mut gone = Vec::new();
    for kind in kinds {
        for (its, name, title) in labelled_elsewhere(client, &kind, label, namespaces, left).await {
            let deleted = unless_gone(its.delete(&name, &DeleteParams::default()).await);
            if left.note(deleted.map_err(Error::api(format!("delete {title}")))) {
                gone.push(title);
            }
        }
    }
    gone
}

/// Objects of a kind with this label, in no namespace or in all but these: API, name, and kind with the whole name.
async fn labelled_elsewhere(
    client: &Client,
    kind: &ApiResource,
    label: &str,
    namespaces: &[String],
    left: &mut Leftovers,
) -> Vec<(Api<DynamicObject>, String, String)> {
    let all = Api::<DynamicObject>::all_with(client.clone(), kind);
    let mut found = Vec::new();
    for object in labelled(&all, label, &kind.kind, left).await {
        let name = object.name_any();
        match object.namespace() {
            Some(namespace) if namespaces.contains(&namespace) => {}
            Some(namespace) => {
                let title = format!("{} {namespace}/{name}", kind.kind);
                found.push((Api::namespaced_with(client.clone(), &namespace, kind), name, title));
            }
            None => {
                let title = format!("{} {name}", kind.kind);
                found.push((all.clone(), name, title));
            }
        }
    }
    found
}

/// Objects with this label. Whoever may not list them has made none, nor anybody where there is no such kind.
async fn labelled<K: Clone + DeserializeOwned + Debug>(
    all: &Api<K>,
    label: &str,
    kind: &str,
    left: &mut Leftovers,
) -> Vec<K> {
    match all.list(&ListParams::default().labels(label)).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => Vec::new(),
        Err(error) => {
            left.note(Err(Error::api(format!("list objects of kind {kind}"))(error)));
            Vec::new()
        }
    }
}

/// Removes pods with this label and what makes pods, in all namespaces but these, with which theirs go. What makes them first, with its pods: the node agent
/// uninstalls itself while it has its rights. Returns kinds and names.
pub(crate) async fn remove_running(
    client: &Client,
    label: &str,
    namespaces: &[String],
    deadline: Duration,
    left: &mut Leftovers,
) -> Vec<String> {
    let mut gone = Vec::new();
    let makers = [
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<ReplicaSet>(&()),
    ];
    for kind in makers {
        for (its, name, title) in labelled_elsewhere(client, &kind, label, namespaces, left).await {
            if left.note(ended(&its, &name, &title, deadline).await) {
                gone.push(title);
            }
        }
    }
    let mut pods = BTreeMap::<_, Vec<_>>::new();
    for pod in labelled(&Api::<Pod>::all(client.clone()), label, "Pod", left).await {
        let namespace = pod.namespace().unwrap_or_default();
        if !namespaces.contains(&namespace) {
            let name = format!("Pod {namespace}/{}", pod.name_any());
            pods.entry(namespace).or_default().push(name);
        }
    }
    let ended = join_all(pods.keys().map(|namespace| remove_pods(client, namespace, label, deadline))).await;
    for (its, names) in ended.into_iter().zip(pods.into_values()) {
        if its.is_empty() {
            gone.extend(names);
        }
        left.extend(its);
    }
    gone
}

/// Removes the pods with this label, and waits until they are gone: with a second's grace, as one without any is forgotten before its node has taken
/// it down.
pub(crate) async fn remove_pods(
    client: &Client,
    namespace: &str,
    label: &str,
    deadline: Duration,
) -> Leftovers {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let (soon, its) = (DeleteParams::default().grace_period(1), ListParams::default().labels(label));
    let what = || format!("the end of pods in namespace {namespace}");
    let gone = async {
        let found = pods.list(&its).await.map_err(Error::api("list pods"))?.items;
        pods.delete_collection(&soon, &its).await.map_err(Error::api("delete pods"))?;
        for pod in &found {
            until_gone(&pods, pod, what, deadline).await?;
        }
        Ok(())
    };
    let gone = tokio::time::timeout(deadline, gone).await;
    let gone = gone.unwrap_or_else(|_| Err(Error::Deadline { what: what(), deadline }));
    judged(client, namespace, gone).await
}

/// Leftovers of an end in a namespace. One that is late is no fault of the lab if a kubelet tells of networks that it cannot take down.
async fn judged(client: &Client, namespace: &str, ended: Result<(), Error>) -> Leftovers {
    let mut left = Leftovers::default();
    if let Err(Error::Deadline { .. }) = &ended {
        let (pods, events): (Api<Pod>, Api<Event>) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), namespace));
        let all = ListParams::default();
        if let (Ok(pods), Ok(events)) = (pods.list(&all).await, events.list(&all).await) {
            left.networks = not_taken_down(&pods.items, &events.items);
        }
    }
    if left.networks.is_empty() {
        left.note(ended);
    }
    left
}

/// Pods that are to go and whose network cannot be taken down, with the last reason that their kubelet gave.
fn not_taken_down(pods: &[Pod], events: &[Event]) -> Vec<String> {
    let reason = |pod: &Pod| {
        let begun = begin_of_deletion(pod)?;
        let its = events.iter().filter(|event| {
            event.reason.as_deref() == Some(NOT_TAKEN_DOWN)
                && event.involved_object.uid == pod.metadata.uid
                && event.last_timestamp.as_ref() >= Some(&begun)
                && event.message.as_deref().is_some_and(is_about_network)
        });
        its.max_by_key(|event| event.last_timestamp.clone())?.message.clone()
    };
    pods.iter()
        .filter_map(|pod| Some(format!("pod {} cannot be taken down: {}", pod.name_any(), reason(pod)?)))
        .collect()
}

fn is_about_network(message: &str) -> bool {
    OF_NETWORK.iter().all(|word| message.contains(word)) && !message.contains(NOT_ASKED)
}

/// Its timestamp is the end of its grace.
fn begin_of_deletion(pod: &Pod) -> Option<Time> {
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
    pod.metadata.deletion_timestamp.as_ref()?.0.checked_sub(grace).ok().map(Time)
}

/// Asks a port of a pod for something through the API server, which stands between: the code, if the pod gave one, and the body. `client` asks once:
/// a pod that answers 503 has answered.
pub(crate) async fn fetch(
    client: &Client,
    (namespace, pod): (&str, &str),
    port: u16,
    path: &str,
    deadline: Duration,
) -> Result<Fetched, Error> {
    let asked = tokio::time::timeout(deadline, ask(client, (namespace, pod), port, path)).await;
    let what = || format!("an answer of pod {namespace}/{pod} to {path}");
    asked.map_err(|_| Error::Deadline { what: what(), deadline })?
}

async fn ask(
    client: &Client,
    (namespace, pod): (&str, &str),
    port: u16,
    path: &str,
) -> Result<Fetched, Error> {
    let url = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}");
    let failed = || Error::api(format!("ask pod {namespace}/{pod} for {path}"));
    let request = http::Request::get(url).body(kube::client::Body::empty());
    let request = request.map_err(|error| failed()(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed())?;
    let code = response.status().as_u16();
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = response.headers().iter().map(header).collect();
    let body = response.into_body().collect_bytes().await.map_err(failed())?;
    let body = String::from_utf8_lossy(&body).into_owned();
    // The API server's own error, not the pod's.
    let is_status = serde_json::from_str::<Value>(&body).is_ok_and(|body| body["kind"] == "Status");
    Ok(Fetched { code: (!is_status).then_some(code), headers, body })
}

/// API and name of an object.
async fn of(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, String), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, version) = match object["apiVersion"].as_str().unwrap_or_default() {
        both if both.contains('/') => both.split_once('/').unwrap_or_default(),
        version => ("", version),
    };
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let found = pinned_kind(client, &kind).await;
    let (resource, abilities) = found.map_err(Error::api(format!("look for kind {}", kind.kind)))?;
    let api = match (abilities.scope, object["metadata"]["namespace"].as_str()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource)
        }
    };
    Ok((api, text(&object["metadata"]["name"])))
}

#[cfg(test)]
mod tests {
    use apiserver::{ApiServer, ServerOptions};
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, deleted: bool) -> Pod {
        let at = deleted.then_some("2026-01-01T00:00:31Z");
        from(json!({ "metadata": {
            "name": format!("pod-{uid}"), "uid": uid, "deletionTimestamp": at, "deletionGracePeriodSeconds": 30,
        } }))
        .unwrap()
    }

    fn event(uid: &str, reason: &str, message: &str, second: u8) -> Event {
        let at = format!("2026-01-01T00:00:{second:02}Z");
        let of = json!({ "uid": uid });
        from(json!({
            "metadata": {}, "reason": reason, "message": message, "lastTimestamp": at, "involvedObject": of,
        }))
        .unwrap()
    }

    /// A kubelet's message of a sandbox that its runtime could not stop.
    fn of_sandbox(why: &str) -> String {
        format!("error killing pod: failed to \"KillPodSandbox\" for \"1\" with KillPodSandboxError: {why:?}")
    }

    /// containerd's words.
    fn of_network(why: &str) -> String {
        of_sandbox(&format!(
            "rpc error: code = Unknown desc = failed to destroy network for sandbox \"1\": {why}"
        ))
    }

    #[test]
    fn a_pod_that_stays_is_the_products_if_its_network_could_not_be_taken_down() {
        let events = [
            event("1", NOT_TAKEN_DOWN, &of_network("DEL failed"), 9),
            event("1", NOT_TAKEN_DOWN, &of_network("DEL is late"), 1),
            event("1", "Killing", "Stopping container app", 10),
            event("3", NOT_TAKEN_DOWN, &of_network("it is not deleted"), 2),
        ];
        let pods = [pod("1", true), pod("2", true), pod("3", false)];
        let wanted = format!("pod pod-1 cannot be taken down: {}", of_network("DEL failed"));
        assert_eq!(not_taken_down(&pods, &events), [wanted]);
        let cri_o = of_sandbox("network teardown failed for pod sandbox app(1): DEL failed");
        assert_eq!(not_taken_down(&pods, &[event("1", NOT_TAKEN_DOWN, &cri_o, 9)]).len(), 1);
    }

    #[test]
    fn a_pod_that_stays_for_another_reason_is_a_fault_of_the_lab() {
        let away = "rpc error: code = Unavailable desc = connection error: dial unix /run/containerd/containerd.sock";
        let container = "failed to \"KillContainer\" for \"app\" with KillContainerError: \"of a network\"";
        let multus = of_network("Multus: [a/b]: error waiting for pod: context deadline exceeded");
        for (message, second) in [
            (of_sandbox(away), 9),
            (container.to_owned(), 9),
            (multus, 9),
            (of_network("before it was deleted"), 0),
        ] {
            let found = not_taken_down(&[pod("1", true)], &[event("1", NOT_TAKEN_DOWN, &message, second)]);
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[tokio::test]
    async fn whoever_does_not_answer_is_not_waited_for() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let soon = Duration::from_millis(50);
        let asked = fetch(&client, ("shop", "cart"), 80, "/metrics", soon).await;
        assert!(matches!(asked, Err(Error::Deadline { .. })), "{asked:?}");
    }

    #[tokio::test]
    async fn one_that_stays_keeps_no_other_from_going() {
        let server = ApiServer::new(ServerOptions::default()).unwrap();
        server.create_namespace("shop", &std::collections::BTreeMap::new()).unwrap();
        let of = |version: &str, kind: &str, metadata: Value| json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
        let held = json!({ "name": "held", "namespace": "shop", "finalizers": ["example.com/held"] });
        let mut pod = of("v1", "Pod", held);
        pod["spec"] = json!({ "containers": [{ "name": "app", "image": "app" }] });
        let role = of("rbac.authorization.k8s.io/v1", "ClusterRole", json!({ "name": "agent" }));
        let applied = [pod, role];
        for object in &applied {
            server.upsert(object.clone()).unwrap();
        }
        let soon = Duration::from_millis(200);
        let left = remove(&server.client(), &applied, soon).await;
        assert_eq!((left.networks.len(), left.faults.len()), (0, 1), "{left:?}");
        let roles: Api<ClusterRole> = Api::all(server.client());
        assert!(roles.get_opt("agent").await.unwrap().is_none());
        let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
        let its = pods.get("held").await.unwrap().metadata.uid;
        let mut failed = of("v1", "Event", json!({ "name": "failed", "namespace": "shop" }));
        failed["involvedObject"] = json!({ "namespace": "shop", "uid": its });
        let why = of_network("DEL failed");
        (failed["reason"], failed["message"]) = (NOT_TAKEN_DOWN.into(), why.clone().into());
        failed["lastTimestamp"] = "2999-01-01T00:00:00Z".into();
        server.upsert(failed).unwrap();
        let left = remove_pods(&server.client(), "shop", "", soon).await;
        let networks = vec![format!("pod held cannot be taken down: {why}")];
        assert_eq!(left, Leftovers { networks, faults: Vec::new() });
    }
}
