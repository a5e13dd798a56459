// SPDX-License-Identifier: Apache-2.0
//! The client against a server that speaks TLS: whom it trusts, by which name, and with which token it comes.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::{ApiError, Client, REQUEST_LIMIT};
use crate::settings::{ApiAddress, KubeconfigSettings};

const V4: &str = "127.0.0.1";
const V6: &str = "::1";

/// Certificate authority.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    fn certify(&self, name: &str) -> Arc<ServerConfig> {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key);
        Arc::new(config.unwrap())
    }
}

/// Server's configuration and observations.
struct State {
    identity: Arc<ServerConfig>,
    token: &'static str,
    /// The token's file, if it is replaced as soon as another token was refused.
    replaced: Option<PathBuf>,
    tokens_seen: Vec<String>,
}

/// The server and the files that its client reads. Each request is a handshake.
struct Lab {
    dir: tempfile::TempDir,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Lab {
    async fn new(host: &str, identity: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind((host.parse::<IpAddr>().unwrap(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(Mutex::new(State { identity, token: "one", replaced: None, tokens_seen: Vec::new() }));
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                let identity = Arc::clone(&state.lock().unwrap().identity);
                tokio::spawn(async move {
                    let Ok(stream) = TlsAcceptor::from(identity).accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let answer = answer(&request, &state);
                        async { Ok::<_, Infallible>(answer) }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let lab = Self { dir: tempfile::tempdir().unwrap(), address, state };
        lab.put("token", "one");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces a file atomically, as the kubelet does.
    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    fn client(&self, skip_verify: bool) -> Client {
        let server = ApiAddress {
            protocol: "https".to_owned(),
            host: self.address.ip().to_string(),
            port: self.address.port().to_string(),
        };
        let ca_file = self.path("ca.crt");
        let settings = KubeconfigSettings { server, ca_file, skip_verify, mode: 0o600 };
        Client::new(&settings, &self.path("token")).unwrap()
    }
}

fn answer(request: &Request<Incoming>, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let mut state = state.lock().unwrap();
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let code = if token == state.token { 200 } else { 401 };
    if let (401, Some(path)) = (code, &state.replaced) {
        std::fs::write(path, state.token).unwrap();
    }
    state.tokens_seen.push(token);
    let body = Full::new(Bytes::from_static(b"{}"));
    Response::builder().status(code).header(CONNECTION, "close").body(body).unwrap()
}

async fn get(client: &Client) -> Result<Value, ApiError> {
    client.get("/api", REQUEST_LIMIT).await
}

/// Asserts a failed handshake with this reason.
async fn refused(client: &Client, why: &str) {
    match get(client).await {
        Err(ApiError::Unreachable(text)) if text.contains(why) => {}
        other => panic!("{other:?} is not for {why}"),
    }
}

#[tokio::test]
async fn a_server_that_the_authority_vouches_for_is_taken_by_its_address() {
    for host in [V4, V6] {
        let authority = Authority::new();
        let lab = Lab::new(host, authority.certify(host)).await;
        lab.put("ca.crt", &authority.pem);
        let client = lab.client(false);
        assert_eq!(get(&client).await, Ok(Value::Object(serde_json::Map::default())), "{host}");
        lab.state.lock().unwrap().identity = authority.certify("10.96.0.1");
        refused(&client, "not valid for name").await;
    }
}

#[tokio::test]
async fn authorities_that_are_replaced_count_from_the_next_handshake_on() {
    let (old, new) = (Authority::new(), Authority::new());
    let lab = Lab::new(V4, old.certify(V4)).await;
    lab.put("ca.crt", &old.pem);
    let client = lab.client(false);
    get(&client).await.unwrap();
    lab.state.lock().unwrap().identity = new.certify(V4);
    refused(&client, "invalid peer certificate").await;
    lab.put("ca.crt", &format!("{}{}", old.pem, new.pem));
    get(&client).await.unwrap();
    lab.put("ca.crt", &old.pem);
    refused(&client, "invalid peer certificate").await;
}

#[tokio::test]
async fn without_authorities_nobody_is_trusted_and_the_file_is_named() {
    let authority = Authority::new();
    let lab = Lab::new(V4, authority.certify(V4)).await;
    let client = lab.client(false);
    refused(&client, "ca.crt").await;
    lab.put("ca.crt", "no certificate");
    refused(&client, "no certificate is in it").await;
    assert!(lab.state.lock().unwrap().tokens_seen.is_empty(), "the token was sent to a stranger");
    lab.put("ca.crt", &authority.pem);
    get(&client).await.unwrap();
}

#[tokio::test]
async fn whoever_does_not_care_takes_any_server() {
    let lab = Lab::new(V4, Authority::new().certify("somebody.else")).await;
    get(&lab.client(true)).await.unwrap();
}

#[tokio::test]
async fn a_refused_request_goes_again_with_the_new_token_and_only_then() {
    let authority = Authority::new();
    let lab = Lab::new(V4, authority.certify(V4)).await;
    lab.put("ca.crt", &authority.pem);
    let client = lab.client(false);
    get(&client).await.unwrap();
    lab.state.lock().unwrap().token = "two";
    assert!(matches!(get(&client).await, Err(ApiError::Unauthorized(_))));
    lab.state.lock().unwrap().replaced = Some(lab.path("token"));
    get(&client).await.unwrap();
    assert_eq!(lab.state.lock().unwrap().tokens_seen, ["one", "one", "one", "two"]);
}
