// SPDX-License-Identifier: Apache-2.0
//! Over real sockets, with a blocking HTTPS client as a CNI plugin has it: TLS, tokens, faults, stopping.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{World, pod, soon};
use apiserver::{ApiServer, Effect, Fault, ServerHandle, Verb};
use base64::Engine as _;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use serde_json::Value;

const CART: &str = "/api/v1/namespaces/shop/pods/cart";

struct Wire {
    world: World,
    handle: ServerHandle,
    agent: ureq::Agent,
}

impl Wire {
    fn tls() -> Self {
        let world = World::new();
        world.server.upsert(pod("cart")).unwrap();
        let handle = world.server.serve_tls(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let agent = agent(&world.server);
        Self { world, handle, agent }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.handle.address())
    }

    /// A GET on a thread of its own, as the administrator.
    async fn get(&self, path: &str) -> Result<(u16, Option<String>, String), ureq::Error> {
        let (agent, url, token) = (self.agent.clone(), self.url(path), self.world.server.admin_token());
        let call = tokio::task::spawn_blocking(move || {
            let mut answer = agent.get(&url).header("Authorization", format!("Bearer {token}")).call()?;
            let retry = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            Ok((answer.status().as_u16(), retry, answer.body_mut().read_to_string()?))
        });
        soon(call).await.unwrap()
    }
}

fn agent(server: &ApiServer) -> ureq::Agent {
    let ca = ureq::tls::Certificate::from_pem(server.ca_pem().as_bytes()).unwrap();
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&[ca]))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
}

#[tokio::test]
async fn a_blocking_client_reads_a_pod_over_tls_on_one_connection() {
    let wire = Wire::tls();
    for _ in 0..3 {
        let (code, _, body) = wire.get(CART).await.unwrap();
        assert_eq!((code, body.parse::<Value>().unwrap()["metadata"]["name"].as_str()), (200, Some("cart")));
    }
    assert_eq!(wire.handle.accepted(), 1);
    assert_eq!(wire.world.server.count(|logged| logged.verb == Verb::Get && logged.path == CART), 3);
    let (code, _, body) = wire.get("/api/v1/namespaces/shop/pods/gone").await.unwrap();
    assert_eq!((code, body.contains("\"reason\":\"NotFound\"")), (404, true));
}

#[tokio::test]
async fn without_credentials_only_health_and_version_answer() {
    let wire = Wire::tls();
    let (agent, urls) =
        (wire.agent.clone(), ["/readyz", "/version", CART, "/api"].map(|path| wire.url(path)));
    let codes = tokio::task::spawn_blocking(move || {
        urls.map(|url| agent.get(&url).call().unwrap().status().as_u16())
    });
    assert_eq!(soon(codes).await.unwrap(), [200, 200, 401, 401]);
    assert_eq!(wire.world.server.requests()[2].user, "system:anonymous");
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_not_served() {
    let (wire, other) = (Wire::tls(), World::new());
    let (stranger, url) = (agent(&other.server), wire.url("/version"));
    let refused = tokio::task::spawn_blocking(move || stranger.get(&url).call());
    assert!(soon(refused).await.unwrap().is_err());
    assert_eq!(wire.world.server.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_can_be_any_code_for_the_first_requests() {
    let wire = Wire::tls();
    let faults = wire.world.server.faults();
    for code in [401, 403, 404, 500, 503] {
        let effect = Effect::answer(StatusCode::from_u16(code).unwrap());
        faults.add(Fault::on(Verb::Get, "/api/v1/namespaces/shop", effect).first(1));
        let (seen, _, body) = wire.get(CART).await.unwrap();
        assert_eq!((seen, &body.parse::<Value>().unwrap()["code"]), (code, &code.into()));
    }
    let busy = Effect::Answer { code: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(7) };
    let fault = faults.add(Fault::on(Verb::Get, CART, busy).first(2));
    for expected in [(429, Some("7".to_owned())), (429, Some("7".to_owned())), (200, None)] {
        let (code, retry, _) = wire.get(CART).await.unwrap();
        assert_eq!((code, retry), expected);
    }
    assert_eq!(faults.hits(fault), 2);
}

#[tokio::test]
async fn a_fault_meets_only_its_verb_path_and_user() {
    let wire = Wire::tls();
    let faults = wire.world.server.faults();
    let effect = Effect::answer(StatusCode::INTERNAL_SERVER_ERROR);
    faults.add(Fault::on(Verb::List, "/", effect));
    faults.add(Fault::on(Verb::Get, "/api/v1/nodes", effect));
    faults.add(Fault { user: Some("system:anonymous".into()), ..Fault::on(Verb::Get, "/", effect) });
    assert_eq!(wire.get(CART).await.unwrap().0, 200);
    assert_eq!(wire.get("/api/v1/pods").await.unwrap().0, 500);
    faults.clear();
    assert_eq!(wire.get("/api/v1/pods").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_dropped_connection_gives_no_byte_of_an_answer() {
    let world = World::new();
    let handle = world.server.serve_plain(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    world.server.faults().add(Fault::on(Verb::Get, "/version", Effect::Drop).first(1));
    let address = handle.address();
    let ask = async || {
        let call = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).map(|_| answer)
        });
        soon(call).await.unwrap().unwrap()
    };
    assert_eq!(ask().await, b"");
    assert!(ask().await.starts_with(b"HTTP/1.1 200"));
    let codes: Vec<_> = world.server.requests().iter().map(|logged| logged.code).collect();
    assert_eq!(codes, [None, Some(200)]);
}

#[tokio::test]
async fn drops_garbage_and_truncation_are_seen_by_a_tls_client() {
    let wire = Wire::tls();
    let faults = wire.world.server.faults();
    let dropped = faults.add(Fault::on(Verb::Get, CART, Effect::Drop));
    assert!(wire.get(CART).await.is_err());
    faults.remove(dropped);
    let garbage = faults.add(Fault::on(Verb::Get, CART, Effect::Garbage));
    let bytes = wire.get(CART).await;
    assert!(
        bytes.is_err() || bytes.is_ok_and(|(code, _, body)| code == 200 && body.parse::<Value>().is_err())
    );
    faults.remove(garbage);
    let whole = wire.get(CART).await.unwrap().2.len();
    faults.add(Fault::on(Verb::Get, CART, Effect::Truncate).first(1));
    let (agent, url, token) = (wire.agent.clone(), wire.url(CART), wire.world.server.admin_token());
    let call = tokio::task::spawn_blocking(move || {
        let answer = agent.get(&url).header("Authorization", format!("Bearer {token}")).call().unwrap();
        let length: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
        let mut body = Vec::new();
        let end = answer.into_body().into_reader().read_to_end(&mut body);
        (length, body.len(), end.is_err())
    });
    assert_eq!(soon(call).await.unwrap(), (whole, whole / 2, true));
    assert_eq!(wire.get(CART).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_held_request_goes_on_when_released() {
    let wire = Wire::tls();
    let server = &wire.world.server;
    let hold = server.faults().add(Fault::on(Verb::Get, CART, Effect::Hold(None)));
    let held = wire.get(CART);
    let release = async {
        server.until_requests(1, |logged| logged.path == CART).await;
        assert_eq!(server.requests()[0].code, None, "it has arrived and has no answer yet");
        server.faults().release(hold);
    };
    let (answer, ()) = tokio::join!(held, soon(release));
    assert_eq!(answer.unwrap().0, 200);
    assert_eq!(server.requests()[0].code, Some(200));
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_limit_then_a_failure_is_a_slow_failure() {
    let world = World::new();
    let faults = world.server.faults();
    faults.add(Fault::on(Verb::Get, "/", Effect::Hold(Some(Duration::from_secs(5)))));
    faults.add(Fault::on(Verb::Get, "/", Effect::answer(StatusCode::SERVICE_UNAVAILABLE)));
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let start = tokio::time::Instant::now();
    assert_eq!(crate::common::refusal(pods.get("cart").await), (503, "ServiceUnavailable".into()));
    assert_eq!(start.elapsed().as_secs(), 5);
    faults.clear();
    faults.add(Fault::on(Verb::Get, "/", Effect::Drop));
    assert!(matches!(pods.get("cart").await, Err(kube::Error::Service(_))));
}

#[tokio::test]
async fn a_stopped_server_leaves_no_listener_and_ends_watches() {
    let Wire { world, handle, agent } = Wire::tls();
    let (address, token) = (handle.address(), world.server.admin_token());
    let watch = tokio::task::spawn_blocking(move || {
        let url = format!("https://{address}/api/v1/pods?watch=true&resourceVersion=0");
        let answer = agent.get(&url).header("Authorization", format!("Bearer {token}")).call().unwrap();
        let mut lines = Vec::new();
        let end = answer.into_body().into_reader().read_to_end(&mut lines);
        (lines.starts_with(b"{\"type\":\"ADDED\""), end.is_err())
    });
    soon(world.server.until_requests(1, |logged| logged.code == Some(200))).await;
    soon(handle.stop()).await;
    assert_eq!(soon(watch).await.unwrap(), (true, true), "the stream is cut off");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_log_is_bounded_and_counts_what_it_drops() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::with(|options| options.log = 2);
        let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
        for name in ["a", "b", "c"] {
            let _not_found = pods.get(name).await;
        }
        let kept: Vec<_> = world.server.requests().iter().map(|logged| logged.order).collect();
        assert_eq!((kept, world.server.requests_dropped()), (vec![1, 2], 1));
    });
}

#[test]
fn a_kubeconfig_has_the_names_of_upstreams_installer() {
    let world = World::new();
    let text = world.server.kubeconfig("https://[::1]:6443", "to ken");
    assert!(
        text.contains("current-context: istio-cni-context\n") && text.contains("- name: istio-cni\n"),
        "{text}"
    );
    assert!(
        text.contains("    token: \"to ken\"\n") && text.contains("    server: https://[::1]:6443\n"),
        "{text}"
    );
    let parsed = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let cluster = parsed.clusters[0].cluster.as_ref().unwrap();
    let ca = base64::engine::general_purpose::STANDARD
        .decode(cluster.certificate_authority_data.as_ref().unwrap());
    assert_eq!(ca.unwrap(), world.server.ca_pem().as_bytes());
}
