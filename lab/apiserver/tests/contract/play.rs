// SPDX-License-Identifier: Apache-2.0
//! Plays a case: requests one after the other, each with what was seen of its answer.

use std::time::Duration;

use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WARNING};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{interval, timeout};

use crate::case::{Case, Step};
use crate::seen::{self, Variables};

/// Controllers of a real cluster on a busy machine follow within seconds.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Clients of one server.
pub(crate) struct Server {
    pub(crate) admin: Client,
    /// Without credentials of its own.
    pub(crate) nobody: Client,
}

/// Plays a case in a new namespace of this name: an entry for each step ([`seen`]).
pub(crate) async fn play(server: &Server, namespace: &str, case: &Case) -> Vec<Value> {
    let mut known = Variables::from([
        ("ns".to_owned(), namespace.to_owned()),
        ("core".to_owned(), format!("/api/v1/namespaces/{namespace}")),
        ("apps".to_owned(), format!("/apis/apps/v1/namespaces/{namespace}")),
        ("rbac".to_owned(), format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}")),
    ]);
    begin(server, namespace).await;
    let mut all = Vec::new();
    for step in &case.steps {
        let seen = timeout(PATIENCE, one(server, step, &mut known)).await;
        all.push(seen.unwrap_or_else(|_| json!(format!("nothing within {PATIENCE:?}"))));
    }
    all
}

/// Makes the namespace, and its account as a controller does, if that has not yet.
async fn begin(server: &Server, namespace: &str) {
    for (path, name) in [
        ("/api/v1/namespaces".to_owned(), namespace),
        (format!("/api/v1/namespaces/{namespace}/serviceaccounts"), "default"),
    ] {
        let body = Body::from(json!({ "metadata": { "name": name } }).to_string().into_bytes());
        let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(body).unwrap();
        let code = server.admin.send(request).await.unwrap().status();
        assert!(code.is_success() || code == 409, "{namespace}: {code}");
    }
}

async fn one(server: &Server, step: &Step, known: &mut Variables) -> Value {
    let mut due = interval(LOOK);
    loop {
        due.tick().await;
        let response = ask(server, step, known).await;
        if step.options.until.is_none_or(|wanted| wanted == response.status().as_u16()) {
            return look(response, step, known).await;
        }
    }
}

async fn ask(server: &Server, step: &Step, known: &Variables) -> Response<Body> {
    let (word, path) = step.request.split_once(' ').unwrap();
    let (method, form) = match word {
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "WATCH" | "TABLE" => ("GET", "application/json"),
        other => (other, "application/json"),
    };
    let (options, path) = (&step.options, filled(path, known));
    let and = if path.contains('?') { "&" } else { "?" };
    let path = if word == "WATCH" { format!("{path}{and}watch=1") } else { path };
    let accept =
        options.accept.as_deref().unwrap_or(if word == "TABLE" { TABLE } else { "application/json" });
    let mut request = Request::builder().method(method).uri(path).header(ACCEPT, accept);
    let body = match (&options.text, &options.body) {
        (Some(text), _) => filled(text, known),
        (None, Value::Null) => String::new(),
        (None, body) => filled(&body.to_string(), known),
    };
    if !body.is_empty() {
        request = request.header(CONTENT_TYPE, options.content_type.as_deref().unwrap_or(form));
    }
    let client = match options.by.as_deref() {
        None => &server.admin,
        Some(token) => {
            if token != "nobody" {
                request = request.header(AUTHORIZATION, format!("Bearer {}", filled(token, known)));
            }
            &server.nobody
        }
    };
    client.send(request.body(Body::from(body.into_bytes())).unwrap()).await.unwrap()
}

/// A text with its variables: `$ns`.
fn filled(text: &str, known: &Variables) -> String {
    known.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

async fn look(response: Response<Body>, step: &Step, known: &mut Variables) -> Value {
    let (head, body) = response.into_parts();
    let mut seen = json!({ "code": head.status.as_u16() });
    let warnings: Vec<&str> =
        head.headers.get_all(WARNING).iter().filter_map(|one| one.to_str().ok()).collect();
    if !warnings.is_empty() {
        seen["warnings"] = json!(warnings);
    }
    if head.status.is_success() && step.request.starts_with("WATCH ") {
        let events = events(body, step.options.take.unwrap_or(usize::MAX)).await;
        keep(&json!(events), step, known);
        seen["events"] = events.iter().map(|event| of(event, &event["object"], step, known)).collect();
        return seen;
    }
    let bytes = body.collect().await.unwrap().to_bytes();
    let body: Value =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    keep(&body, step, known);
    if body["kind"] == "Status" {
        seen["status"] = seen::status(&body, known);
    } else if !step.options.see.is_empty() {
        seen["seen"] = seen::fields(&body, &step.options.see, known);
    } else if !head.status.is_success() {
        seen["body"] = body;
    }
    seen
}

fn of(event: &Value, object: &Value, step: &Step, known: &Variables) -> Value {
    let seen = match object["kind"].as_str() {
        Some("Status") => seen::status(object, known),
        _ => seen::fields(object, &step.options.see, known),
    };
    json!({ "type": event["type"], "object": seen })
}

fn keep(body: &Value, step: &Step, known: &mut Variables) {
    for (name, path) in &step.options.keep {
        let value = seen::at(body, path);
        known.insert(name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
}

/// The first events of a watch, or all until it ends.
async fn events(body: Body, count: usize) -> Vec<Value> {
    let (mut stream, mut buffer, mut found) = (body.into_data_stream(), Vec::new(), Vec::new());
    while found.len() < count
        && let Some(bytes) = stream.next().await
    {
        buffer.extend_from_slice(&bytes.unwrap());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            found.push(serde_json::from_slice(&line).unwrap());
        }
    }
    found.truncate(count);
    found
}
