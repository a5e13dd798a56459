// SPDX-License-Identifier: Apache-2.0
//! Webhooks of admission over HTTPS, on sockets of this machine.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cluster::{Identity, Issuer as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::common::{Loopback, World, pod};

type Answering = dyn Fn(&Value) -> Value + Send + Sync;

/// A webhook that answers with a response for each request, and remembers the requests.
async fn listen(world: &World, answering: Arc<Answering>) -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let names = ["127.0.0.1".into(), "hook.shop.svc".into()];
    let Identity { certificate, key } = world.server.authority().issue(&names, None).unwrap();
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (tls, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let remembered = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = tls.accept(stream).await else { continue };
            let (answering, remembered) = (Arc::clone(&answering), Arc::clone(&remembered));
            let service = service_fn(move |request: Request<Incoming>| {
                let (answering, remembered) = (Arc::clone(&answering), Arc::clone(&remembered));
                async move {
                    let body = request.into_body().collect().await?.to_bytes();
                    let review: Value = serde_json::from_slice(&body).unwrap();
                    let mut response = answering(&review["request"]);
                    response["uid"] = review["request"]["uid"].clone();
                    remembered.lock().unwrap().push(review["request"].clone());
                    let answer = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
                    Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(answer.to_string()))))
                }
            });
            let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (address, asked)
}

fn hook(name: &str, client: &Value, changes: &Value) -> Value {
    let mut hook = json!({
        "name": name, "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    });
    for (field, value) in changes.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}

fn configure(world: &World, kind: &str, name: &str, hooks: &[Value]) {
    let metadata = json!({"name": name});
    let version = "admissionregistration.k8s.io/v1";
    world
        .server
        .upsert(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": hooks}))
        .unwrap();
}

fn at(world: &World, address: SocketAddr) -> Value {
    json!({"url": format!("https://{address}/x"), "caBundle": STANDARD.encode(world.server.ca_pem())})
}

fn patching(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// Appends to the label `trace`.
fn tracing(word: &'static str) -> Arc<Answering> {
    Arc::new(move |request| {
        let labels = &request["object"]["metadata"]["labels"];
        let trace = format!("{}{word}", labels["trace"].as_str().unwrap_or_default());
        patching(&json!([{"op": "add", "path": "/metadata/labels", "value": {"trace": trace}}]))
    })
}

async fn create(world: &World, name: &str) -> kube::Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    pods.create(&PostParams::default(), &serde_json::from_value(pod(name)).unwrap()).await
}

fn world() -> World {
    let world = World::new();
    world.server.set_network(Arc::new(Loopback));
    world
}

fn said(result: kube::Result<Pod>) -> (u16, String, String) {
    let Err(kube::Error::Api(status)) = result else { panic!("{result:?}") };
    (status.code, status.reason.clone(), status.message.clone())
}

#[tokio::test]
async fn a_pod_is_as_its_webhooks_leave_it_in_the_order_of_their_names() {
    let world = world();
    let (first, asked) = listen(&world, tracing("a")).await;
    let (second, _) = listen(&world, tracing("b")).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&world, "MutatingWebhookConfiguration", "2", &[hook("b.x.y", &at(&world, second), &json!({}))]);
    configure(&world, "MutatingWebhookConfiguration", "1", &[hook("a.x.y", &at(&world, first), &again)]);
    let made = create(&world, "cart").await.unwrap();
    assert_eq!(made.metadata.labels.unwrap()["trace"], "aba", "the first saw what the second did");
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["operation"], "CREATE");
    assert_eq!((&asked[0]["namespace"], &asked[0]["name"]), (&json!("shop"), &json!("cart")));
    assert_eq!(asked[0]["kind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
    assert_eq!(asked[0]["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
    assert_eq!((&asked[0]["oldObject"], &asked[0]["dryRun"]), (&Value::Null, &json!(false)));
    assert_ne!(asked[0]["uid"], asked[1]["uid"]);
}

#[tokio::test]
async fn an_applied_pod_is_created_once_and_updated_without_it() {
    let world = world();
    let (address, asked) = listen(&world, tracing("a")).await;
    configure(
        &world,
        "MutatingWebhookConfiguration",
        "1",
        &[hook("a.x.y", &at(&world, address), &json!({}))],
    );
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    for _ in 0..2 {
        let by = PatchParams::apply("test");
        pods.patch("cart", &by, &Patch::Apply(pod("cart"))).await.unwrap();
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert_eq!(world.server.pod("shop", "cart").unwrap()["metadata"]["labels"]["trace"], "a");
}

#[tokio::test]
async fn a_validating_webhook_sees_what_the_others_made_and_denies_in_its_own_words() {
    let world = world();
    let (changing, _) = listen(&world, tracing("a")).await;
    let deny = Arc::new(|request: &Value| {
        let trace = request["object"]["metadata"]["labels"]["trace"].clone();
        json!({"allowed": false, "warnings": ["beware"], "status": {"code": 403, "reason": "Forbidden", "message": trace}})
    });
    let (judging, _) = listen(&world, deny).await;
    configure(
        &world,
        "MutatingWebhookConfiguration",
        "1",
        &[hook("a.x.y", &at(&world, changing), &json!({}))],
    );
    configure(
        &world,
        "ValidatingWebhookConfiguration",
        "1",
        &[hook("v.x.y", &at(&world, judging), &json!({}))],
    );
    let expected = "admission webhook \"v.x.y\" denied the request: a".to_owned();
    assert_eq!(said(create(&world, "cart").await), (403, "Forbidden".to_owned(), expected));
    assert!(world.server.pod("shop", "cart").is_none());
}

#[tokio::test]
async fn one_that_cannot_be_called_fails_as_its_policy_says() {
    let world = world();
    let (address, _) = listen(&world, tracing("a")).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let untrusted = json!({"url": format!("https://{address}/x"), "caBundle": STANDARD.encode(World::new().server.ca_pem())});
    let service = json!({"service": {"namespace": "shop", "name": "hook", "path": "/x"}, "caBundle": ""});
    let url = |at: SocketAddr| format!("Post \"https://{at}/x?timeout=1s\"");
    let to_service = "Post \"https://hook.shop.svc:443/x?timeout=1s\"";
    let cases = [
        (at(&world, closed), format!("{}: dial tcp {closed}: connect: connection refused", url(closed))),
        (
            untrusted,
            format!(
                "{}: tls: failed to verify certificate: x509: certificate signed by unknown authority",
                url(address)
            ),
        ),
        (service, format!("{to_service}: service \"hook\" not found")),
    ];
    for (client, why) in cases {
        let policy = |policy: &str| json!({"failurePolicy": policy, "timeoutSeconds": 1});
        let configured = |changes: &Value| {
            configure(&world, "MutatingWebhookConfiguration", "1", &[hook("a.x.y", &client, changes)]);
        };
        configured(&policy("Fail"));
        let expected = format!(
            "Internal error occurred: failed calling webhook \"a.x.y\": failed to call webhook: {why}"
        );
        assert_eq!(said(create(&world, "cart").await), (500, "InternalError".to_owned(), expected));
        configured(&policy("Ignore"));
        create(&world, &format!("cart-{}", why.len())).await.unwrap();
    }
}

#[tokio::test]
async fn a_service_is_one_of_its_ready_pods() {
    let world = world();
    let (address, asked) = listen(&world, tracing("a")).await;
    let ports = json!([{"port": 443, "targetPort": "https"}]);
    let spec = json!({"selector": {"app": "hook"}, "ports": ports});
    world
        .server
        .upsert(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "shop"}, "spec": spec}))
        .unwrap();
    let client = json!({"service": {"namespace": "shop", "name": "hook", "path": "/x"},
                        "caBundle": STANDARD.encode(world.server.ca_pem())});
    configure(&world, "MutatingWebhookConfiguration", "1", &[hook("a.x.y", &client, &json!({}))]);
    let (_, _, message) = said(create(&world, "cart").await);
    assert!(message.ends_with(": no endpoints available for service \"hook\""), "{message}");
    let mut backend = pod("hook");
    backend["metadata"]["labels"] = json!({"app": "hook"});
    backend["spec"]["containers"][0]["ports"] = json!([{"name": "https", "containerPort": address.port()}]);
    backend["status"] = json!({"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]});
    world.server.upsert(backend).unwrap();
    create(&world, "cart").await.unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
}
