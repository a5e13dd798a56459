// SPDX-License-Identifier: Apache-2.0
//! Repair's requests to the API server: a deletion or an eviction with the UID as precondition, and a label by way of the pod's status.

use std::time::Duration;

use http::Request;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::decide::ActionResult;
use super::turn::{self, Turn};
use crate::api::{ApiError, Client, LeaseAt, REQUEST_LIMIT};
use crate::pods::NodePod;
use crate::settings::OwnPod;

/// Deletes a pod, with its UID and resource version as preconditions. The UID alone would delete one that came up after it was seen: somebody
/// repaired it, and the watch is behind.
pub async fn delete(client: &Client, pod: &NodePod) -> ActionResult {
    let preconditions =
        json!({"uid": pod.metadata.facts.uid, "resourceVersion": pod.metadata.resource_version});
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
    let request = Request::delete(path(pod)).header("content-type", "application/json");
    send(client, pod, request, &options).await
}

/// Evicts a pod of the node, if it is the node's turn, with the preconditions of a deletion: its disruption budgets count.
pub async fn evict(client: &Client, pod: &NodePod, own: &OwnPod) -> ActionResult {
    if let Err(not_now) = take_turn(client, own).await {
        return not_now;
    }
    let request = Request::post(path(pod) + "/eviction").header("content-type", "application/json");
    send(client, pod, request, &eviction_of(pod)).await
}

fn eviction_of(pod: &NodePod) -> Value {
    let facts = &pod.metadata.facts;
    let preconditions = json!({"uid": facts.uid, "resourceVersion": &pod.metadata.resource_version});
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": facts.name, "namespace": facts.namespace},
        "deleteOptions": {"preconditions": preconditions},
    })
}

/// Takes the turn of an eviction; see [`turn`]. A turn that nothing comes of is over all the same.
async fn take_turn(client: &Client, own: &OwnPod) -> Result<(), ActionResult> {
    let held = |left: Duration| {
        let (every, left) = (turn::INTERVAL.as_secs(), left.as_secs().max(1));
        ActionResult::Held(format!(
            "agents of all nodes evict one pod each {every} s, and the next turn is in {left} s"
        ))
    };
    let lease = LeaseAt::new(client.clone(), own.namespace.clone(), turn::LEASE.to_owned());
    let written = match lease.read(REQUEST_LIMIT).await {
        Ok(found) => match turn::turn(found.as_ref(), &own.node, Timestamp::now()) {
            Turn::Create(made) => lease.create(&made, REQUEST_LIMIT).await,
            Turn::Replace(taken) => lease.replace(&taken, REQUEST_LIMIT).await,
            Turn::Later(left) => return Err(held(left)),
        },
        Err(error) => Err(error),
    };
    match written {
        Ok(()) => Ok(()),
        Err(ApiError::Conflict(_)) => Err(held(turn::INTERVAL)),
        Err(error) => Err(ActionResult::Failed(format!("cannot take the turn of an eviction: {error}"))),
    }
}

/// Labels a pod, in the version that was seen: another pod may have its name by now. The API server takes metadata with a change of the status, so
/// that no right to change pods is needed.
pub async fn label(client: &Client, pod: &NodePod, (key, value): &(String, String)) -> ActionResult {
    let version = &pod.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version, "labels": {key.as_str(): value}}});
    let request =
        Request::patch(path(pod) + "/status").header("content-type", "application/merge-patch+json");
    send(client, pod, request, &patch).await
}

fn path(pod: &NodePod) -> String {
    let facts = &pod.metadata.facts;
    format!("/api/v1/namespaces/{}/pods/{}", facts.namespace, facts.name)
}

async fn send(client: &Client, pod: &NodePod, request: http::request::Builder, body: &Value) -> ActionResult {
    let request = match request.body(body.to_string().into_bytes()) {
        Ok(request) => request,
        Err(error) => return ActionResult::Failed(error.to_string()),
    };
    match client.request::<serde::de::IgnoredAny>(request, REQUEST_LIMIT).await {
        Ok(_) => ActionResult::Accepted,
        Err(error) if error.is_gone(&pod.metadata.facts.name) => ActionResult::Vanished,
        Err(error @ ApiError::Conflict(_)) => ActionResult::Conflict(error.to_string()),
        // The answer to an eviction that a disruption budget forbids.
        Err(ApiError::Throttled { message, .. }) if message.contains("disruption budget") => {
            ActionResult::Held(message)
        }
        Err(error) => ActionResult::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Response;
    use http_body_util::{BodyExt as _, Full};

    use super::*;
    use crate::api::testing::{Script, Scripted};

    type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

    /// Server that answers everything with `code`, and its log of requests.
    fn server(code: u16) -> (Client, Requests) {
        saying(code, "{}")
    }

    fn saying(code: u16, text: &'static str) -> (Client, Requests) {
        let asked = Requests::default();
        let heard = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let heard = Arc::clone(&heard);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let line = format!("{} {}", parts.method, parts.uri.path());
                let kind = parts.headers["content-type"].to_str().unwrap().to_owned();
                heard.lock().unwrap().push((line, kind, serde_json::from_slice(&body).unwrap()));
                let answer = Response::builder().status(code).body(Full::new(bytes::Bytes::from(text)));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        (Client::from(kube::Client::new(service, "default")), asked)
    }

    fn pod() -> NodePod {
        let metadata = json!({"name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "7"});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[tokio::test]
    async fn a_deletion_names_the_very_pod_that_was_seen() {
        let (client, asked) = server(200);
        assert_eq!(delete(&client, &pod()).await, ActionResult::Accepted);
        let (line, kind, body) = asked.lock().unwrap().pop().unwrap();
        assert_eq!(line, "DELETE /api/v1/namespaces/shop/pods/cart");
        assert_eq!(kind, "application/json");
        assert_eq!(body["preconditions"], json!({"uid": "u-1", "resourceVersion": "7"}));
        assert!(body.get("gracePeriodSeconds").is_none(), "the pod's own counts");
    }

    fn own() -> OwnPod {
        OwnPod { namespace: "mesh".to_owned(), node: "n-1".to_owned(), ..OwnPod::default() }
    }

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/mesh/leases";

    /// Evicts the pod where the API server answers so, the lease first; with the requests.
    async fn evicted(answers: impl IntoIterator<Item = Scripted>) -> (ActionResult, Vec<String>) {
        let script = Script::new(answers);
        (evict(&script.client(), &pod(), &own()).await, script.asked())
    }

    fn lease(renewed: Timestamp) -> Scripted {
        Scripted::new(200, json!({ "spec": { "renewTime": renewed.to_string() } }).to_string())
    }

    #[tokio::test]
    async fn an_eviction_names_the_very_pod_and_waits_for_its_budgets() {
        let answers = |eviction| [Scripted::absent("leases", "x"), Scripted::new(201, "{}"), eviction];
        let (done, asked) = evicted(answers(Scripted::new(201, "{}"))).await;
        let lease = format!("{LEASES}/istio-cni-evictions");
        let eviction = "/api/v1/namespaces/shop/pods/cart/eviction".to_owned();
        assert_eq!((done, asked), (ActionResult::Accepted, vec![lease, LEASES.to_owned(), eviction]));
        let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
        let status = |message: &str| json!({ "kind": "Status", "code": 429, "message": message }).to_string();
        let (done, _) = evicted(answers(Scripted::new(429, status(budget)))).await;
        assert_eq!(done, ActionResult::Held(budget.to_owned()));
        let (done, _) = evicted(answers(Scripted::new(429, status("too many requests")))).await;
        assert!(matches!(done, ActionResult::Failed(_)), "{done:?}");
        let body = eviction_of(&pod());
        let options = json!({"preconditions": {"uid": "u-1", "resourceVersion": "7"}});
        assert_eq!((&body["kind"], &body["deleteOptions"]), (&json!("Eviction"), &options));
    }

    #[tokio::test]
    async fn no_pod_is_evicted_out_of_turn() {
        let now = Timestamp::now();
        let long_ago = Timestamp::from_second(now.as_second() - 60).unwrap();
        let held = |done: &ActionResult| matches!(done, ActionResult::Held(why) if why.contains("each 10 s"));
        let (done, asked) = evicted([lease(now)]).await;
        assert!(held(&done) && asked.len() == 1, "{done:?} {asked:?}");
        // Another agent was first.
        let (done, asked) = evicted([lease(long_ago), Scripted::new(409, "")]).await;
        assert!(held(&done) && asked.len() == 2, "{done:?} {asked:?}");
        // Without the right to take turns nothing is evicted.
        let (done, asked) = evicted([Scripted::new(403, "")]).await;
        assert!(matches!(done, ActionResult::Failed(_)) && asked.len() == 1, "{done:?} {asked:?}");
        let (done, _) = evicted([lease(long_ago), Scripted::new(200, "{}"), Scripted::new(201, "{}")]).await;
        assert_eq!(done, ActionResult::Accepted);
    }

    #[tokio::test]
    async fn a_label_is_a_merge_patch_of_the_status_of_the_pod_that_was_seen() {
        let (client, asked) = server(200);
        let label = ("cni.istio.io/uninitialized".to_owned(), "true".to_owned());
        assert_eq!(super::label(&client, &pod(), &label).await, ActionResult::Accepted);
        let (line, kind, body) = asked.lock().unwrap().pop().unwrap();
        assert_eq!(line, "PATCH /api/v1/namespaces/shop/pods/cart/status");
        assert_eq!(kind, "application/merge-patch+json");
        let labels = json!({"cni.istio.io/uninitialized": "true"});
        assert_eq!(body, json!({"metadata": {"resourceVersion": "7", "labels": labels}}));
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_or_changed_is_no_failure_and_all_else_is() {
        let gone = saying(404, r#"{"kind":"Status","code":404,"message":"pods \"cart\" not found"}"#);
        assert_eq!(delete(&gone.0, &pod()).await, ActionResult::Vanished);
        let done = delete(&server(409).0, &pod()).await;
        assert!(matches!(done, ActionResult::Conflict(_)), "{done:?}");
        // A 404 of a load balancer, say, among them.
        for code in [403, 404, 429, 500] {
            let done = delete(&server(code).0, &pod()).await;
            assert!(matches!(done, ActionResult::Failed(_)), "{code}: {done:?}");
        }
    }
}
