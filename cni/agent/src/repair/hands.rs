// SPDX-License-Identifier: Apache-2.0
//! What repair asks of the API server: a deletion that only ever meets the very pod that was seen, and a label by way of its status.

use http::Request;
use protocol::mutant;
use serde_json::{Value, json};

use super::decide::Done;
use crate::api::{ApiError, Client, REQUEST_LIMIT};
use crate::pods::NodePod;

/// Deletes a pod, if it is still as it was seen.
pub async fn delete(client: &Client, pod: &NodePod) -> Done {
    let preconditions =
        json!({"uid": pod.metadata.facts.uid, "resourceVersion": pod.metadata.resource_version});
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
    if mutant!("delete-unconditional") {
        options["preconditions"] = Value::Null;
    }
    send(client, Request::delete(path(pod)).header("content-type", "application/json"), &options).await
}

/// Labels a pod. The API server takes metadata with a change of the status, so that no right to change pods is needed.
pub async fn label(client: &Client, pod: &NodePod, (key, value): &(String, String)) -> Done {
    let status = if mutant!("label-on-pod") { "" } else { "/status" };
    let patch = json!({"metadata": {"labels": {key.as_str(): value}}});
    let request = Request::patch(path(pod) + status).header("content-type", "application/merge-patch+json");
    send(client, request, &patch).await
}

fn path(pod: &NodePod) -> String {
    let facts = &pod.metadata.facts;
    format!("/api/v1/namespaces/{}/pods/{}", facts.namespace, facts.name)
}

async fn send(client: &Client, request: http::request::Builder, body: &Value) -> Done {
    let request = match request.body(body.to_string().into_bytes()) {
        Ok(request) => request,
        Err(error) => return Done::Failed(error.to_string()),
    };
    match client.request::<serde::de::IgnoredAny>(request, REQUEST_LIMIT).await {
        Ok(_) => Done::Accepted,
        Err(ApiError::NotFound(_)) => Done::Vanished,
        Err(error) => Done::Failed(format!("failed to {error}")),
    }
}
