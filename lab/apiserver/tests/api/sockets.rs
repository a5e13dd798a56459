// SPDX-License-Identifier: Apache-2.0
//! Over real sockets, with a blocking HTTPS client as a CNI plugin has it: TLS, tokens, stopping.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::common::{World, pod, soon};
use apiserver::{ApiServer, Verb};
use base64::Engine as _;
use listen::ServerHandle;
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
    assert_eq!(soon(codes).await.unwrap(), [200, 200, 403, 403]);
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
