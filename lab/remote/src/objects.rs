// SPDX-License-Identifier: Apache-2.0
//! Objects of any kind: applied, and removed in an order that leaves nothing behind.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::error::Error;
use crate::watch::until_gone;

/// An object of a type of the API.
pub(crate) fn from<T: serde::de::DeserializeOwned>(object: Value) -> Result<T, Error> {
    Ok(serde_json::from_value(object)?)
}

/// Field manager.
const MANAGER: &str = "cnilab";

/// Applies an object (server-side apply), and returns it as the API server has it.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<Value, Error> {
    let (api, name) = of(client, object).await?;
    let applied = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await;
    Ok(serde_json::to_value(applied.map_err(Error::api(format!("apply {} {name}", object["kind"])))?)?)
}

/// Removes those of the objects that are nodes, and the pods there: nobody else would confirm the end of these.
pub(crate) async fn remove_nodes(client: &Client, objects: &[Value]) -> Result<(), Error> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::all(client.clone()));
    for object in objects.iter().filter(|object| object["kind"] == "Node") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        unless_gone(nodes.delete(name, &DeleteParams::default()).await)
            .map_err(Error::api(format!("delete node {name}")))?;
        let of_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        for pod in pods.list(&of_node).await.map_err(Error::api("list pods"))? {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            let name = pod.name_any();
            unless_gone(pods.delete(&name, &DeleteParams::default().grace_period(0)).await)
                .map_err(Error::api(format!("delete pod {name}")))?;
        }
    }
    Ok(())
}

/// A deletion; that of what is gone already is right.
fn unless_gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Removes objects: DaemonSets and pods first, which may need the others to end. One that is gone already is right.
pub(crate) async fn remove(client: &Client, objects: &[Value], deadline: Duration) -> Result<(), Error> {
    let (first, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object["kind"] == "DaemonSet" || object["kind"] == "Pod");
    for object in first {
        let (api, name) = of(client, object).await?;
        let failed = || Error::api(format!("delete {} {name}", object["kind"]));
        let Some(found) = api.get_opt(&name).await.map_err(failed())? else { continue };
        api.delete(&name, &DeleteParams::foreground()).await.map_err(failed())?;
        until_gone(&api, &found, || format!("the end of {} {name}", object["kind"]), deadline).await?;
    }
    for object in others.into_iter().rev() {
        let (api, name) = of(client, object).await?;
        unless_gone(api.delete(&name, &DeleteParams::default()).await)
            .map_err(Error::api(format!("delete {} {name}", object["kind"])))?;
    }
    Ok(())
}

/// Removes objects with this label that belong to no namespace, of the kinds that the node agent's chart makes, and returns their names.
pub(crate) async fn remove_cluster_wide(client: &Client, label: &str) -> Result<Vec<String>, Error> {
    let kinds = [
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
        ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&()),
    ];
    let mut gone = Vec::new();
    for kind in kinds {
        gone.extend(all_gone(client, label, &kind).await?);
    }
    Ok(gone)
}

async fn all_gone(client: &Client, label: &str, of: &ApiResource) -> Result<Vec<String>, Error> {
    let (all, kind) = (Api::<DynamicObject>::all_with(client.clone(), of), &of.kind);
    let found = match all.list(&ListParams::default().labels(label)).await {
        // Whoever may not list them has made none.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Vec::new()),
        found => found.map_err(Error::api(format!("list objects of kind {kind}")))?,
    };
    let mut gone = Vec::new();
    for name in found.iter().map(ResourceExt::name_any) {
        let deleted = all.delete(&name, &DeleteParams::default()).await;
        deleted.map_err(Error::api(format!("delete {kind} {name}")))?;
        gone.push(format!("{kind} {name}"));
    }
    Ok(gone)
}

/// Removes the pods with this label, and waits until they are gone: with a second's grace, as one without any is forgotten before its node has taken
/// it down.
pub(crate) async fn remove_pods(
    client: &Client,
    namespace: &str,
    label: &str,
    deadline: Duration,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let (soon, its) = (DeleteParams::default().grace_period(1), ListParams::default().labels(label));
    let found = pods.list(&its).await.map_err(Error::api("list pods"))?.items;
    pods.delete_collection(&soon, &its).await.map_err(Error::api("delete pods"))?;
    for pod in &found {
        until_gone(&pods, pod, || format!("the end of pods in namespace {namespace}"), deadline).await?;
    }
    Ok(())
}

/// Asks a port of a pod for something through the API server, which stands between: the code, if the pod gave one, and the body. `client` asks once:
/// a pod that answers 503 has answered.
pub(crate) async fn fetch(
    client: &Client,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<(Option<u16>, String), Error> {
    let url = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}");
    let failed = || Error::api(format!("ask pod {namespace}/{pod} for {path}"));
    let request = http::Request::get(url).body(kube::client::Body::empty());
    let request = request.map_err(|error| failed()(kube::Error::HttpError(error)))?;
    let response = client.send(request).await.map_err(failed())?;
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.map_err(failed())?;
    let body = String::from_utf8_lossy(&body).into_owned();
    // The API server's own error, not the pod's.
    let is_status = serde_json::from_str::<Value>(&body).is_ok_and(|body| body["kind"] == "Status");
    Ok(((!is_status).then_some(code), body))
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
