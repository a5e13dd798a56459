// SPDX-License-Identifier: Apache-2.0
//! Over real sockets, with a blocking HTTPS client as a CNI plugin has it: broken answers, broken connections.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cluster::{Effect, Fault, Front as _, Issuer as _, Verb};
use front::Proxy;
use http::header::AUTHORIZATION;
use listen::ServerHandle;
use serde_json::Value;

use crate::common::{World, soon, stranger};

const CART: &str = "/api/v1/namespaces/shop/pods/cart";

struct Wire {
    world: World,
    handle: ServerHandle,
    agent: ureq::Agent,
}

impl Wire {
    async fn both() -> [Self; 2] {
        let [one, other] = World::both().await;
        [Self::new(one).await, Self::new(other).await]
    }

    async fn new(world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        world.front.certify(&**world.server.authority(), None).await.unwrap();
        let handle = world.front.serve(listener).unwrap();
        let agent = trusting(&world.server.ca_pem());
        Self { world, handle, agent }
    }

    fn request(&self, path: &str) -> ureq::RequestBuilder<ureq::typestate::WithoutBody> {
        let url = format!("https://{}{path}", self.handle.address());
        self.agent.get(&url).header("Authorization", format!("Bearer {}", self.world.token))
    }

    /// A GET on a thread of its own.
    async fn get(&self, path: &str) -> Result<(u16, Option<String>, String), ureq::Error> {
        let request = self.request(path);
        let call = tokio::task::spawn_blocking(move || {
            let mut answer = request.call()?;
            let retry = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            Ok((answer.status().as_u16(), retry, answer.body_mut().read_to_string()?))
        });
        soon(call).await.unwrap()
    }
}

/// A client that trusts this authority alone.
fn trusting(authority: &str) -> ureq::Agent {
    let ca = ureq::tls::Certificate::from_pem(authority.as_bytes()).unwrap();
    let tls = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&[ca]))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
}

#[tokio::test]
async fn another_certificate_ends_the_connections_of_before() {
    for mut wire in Wire::both().await {
        assert_eq!(wire.get(CART).await.unwrap().0, 200);
        let successor = wire.world.server.authority().successor().unwrap();
        wire.world.front.certify(&*successor, None).await.unwrap();
        assert!(wire.get(CART).await.is_err(), "its connection is closed");
        let refused = wire.get(CART).await.unwrap_err().to_string();
        assert!(refused.contains("certificate"), "{refused}");
        wire.agent = trusting(&successor.ca());
        assert_eq!(wire.get(CART).await.unwrap().0, 200);
        let later = SystemTime::now() + Duration::from_secs(60);
        wire.world.front.certify(&*successor, Some(later)).await.unwrap();
        assert!(wire.get(CART).await.is_err(), "its connection is closed");
        let refused = wire.get(CART).await.unwrap_err().to_string();
        assert!(refused.contains("not valid yet"), "{refused}");
    }
}

#[tokio::test]
async fn an_answer_can_be_any_code_for_the_first_requests() {
    for wire in Wire::both().await {
        let front = &wire.world.front;
        for code in [401, 403, 404, 500, 503] {
            front.add(Fault::on(Verb::Get, "/api/v1/namespaces/shop", Effect::answer(code)).first(1));
            let (seen, _, body) = wire.get(CART).await.unwrap();
            assert_eq!((seen, &body.parse::<Value>().unwrap()["code"]), (code, &code.into()));
        }
        let busy = Effect::Answer { code: 429, retry_after: Some(7) };
        front.add(Fault::on(Verb::Get, CART, busy).first(2));
        for expected in [(429, Some("7".to_owned())), (429, Some("7".to_owned())), (200, None)] {
            let (code, retry, _) = wire.get(CART).await.unwrap();
            assert_eq!((code, retry), expected);
        }
        assert_eq!(wire.handle.accepted(), 1, "one connection serves them all");
        assert!(front.requests().iter().all(|one| one.denied.is_none()), "an injected 403 denies nothing");
    }
}

#[tokio::test]
async fn what_a_stranger_refuses_is_passed_on_and_asked_for_once() {
    let behind = Wire::new(World::in_process()).await;
    let busy = Effect::Answer { code: 429, retry_after: Some(7) };
    behind.world.front.add(Fault::on(Verb::Get, CART, busy).first(1));
    let front = Proxy::new(stranger(&behind.world.server, behind.handle.address()).await, Vec::new());
    let ask = async || {
        let request =
            http::Request::get(CART).header(AUTHORIZATION, format!("Bearer {}", behind.world.token));
        let request = request.body(kube::client::Body::empty()).unwrap();
        soon(front.answer(request)).await.unwrap().status().as_u16()
    };
    assert_eq!(ask().await, 429);
    assert_eq!(behind.world.front.requests().len(), 1);
    assert_eq!(ask().await, 200);
}

#[tokio::test]
async fn drops_garbage_and_truncation_are_seen_by_a_tls_client() {
    for wire in Wire::both().await {
        let front = &wire.world.front;
        front.add(Fault::on(Verb::Get, CART, Effect::Drop));
        assert!(wire.get(CART).await.is_err());
        front.clear();
        front.add(Fault::on(Verb::Get, CART, Effect::Garbage));
        let seen = wire.get(CART).await;
        assert!(
            seen.is_err() || seen.is_ok_and(|(code, _, body)| code == 200 && body.parse::<Value>().is_err())
        );
        front.clear();
        let whole = wire.get(CART).await.unwrap().2.len();
        front.add(Fault::on(Verb::Get, CART, Effect::Truncate).first(1));
        let request = wire.request(CART);
        let call = tokio::task::spawn_blocking(move || {
            let answer = request.call().unwrap();
            let length: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
            let mut body = Vec::new();
            let end = answer.into_body().into_reader().read_to_end(&mut body);
            (length, body.len(), end.is_err())
        });
        assert_eq!(soon(call).await.unwrap(), (whole, whole / 2, true));
        assert_eq!(wire.get(CART).await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn a_dropped_connection_gives_no_byte_of_an_answer() {
    let world = World::in_process();
    let handle = world.front.serve(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    world.front.add(Fault::on(Verb::Get, "/version", Effect::Drop).first(1));
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
    let codes: Vec<_> = world.front.requests().iter().map(|one| one.code).collect();
    assert_eq!(codes, [None, Some(200)]);
}

#[tokio::test]
async fn a_held_request_goes_on_once_the_fault_is_gone() {
    for wire in Wire::both().await {
        let front = &wire.world.front;
        front.add(Fault::on(Verb::Get, CART, Effect::Hold(None)));
        let held = wire.get(CART);
        let release = async {
            front.until_requests(1, &|one| one.path == CART).await;
            assert_eq!(front.requests()[0].code, None, "it has arrived and has no answer yet");
            front.clear();
        };
        let (answer, ()) = tokio::join!(held, soon(release));
        assert_eq!(answer.unwrap().0, 200);
        assert_eq!(front.requests()[0].code, Some(200));
    }
}

#[tokio::test]
async fn connections_are_reset() {
    let wire = Wire::new(World::in_process()).await;
    let address = wire.handle.address();
    wire.world.front.reset_connections();
    let call = tokio::task::spawn_blocking(move || {
        // Whichever call meets the reset first reports it.
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(b"\x16\x03\x01")?;
            stream.read(&mut [0; 16])
        });
        asked.map_err(|error| error.kind())
    });
    assert_eq!(soon(call).await.unwrap(), Err(ErrorKind::ConnectionReset));
}
