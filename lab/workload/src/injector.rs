// SPDX-License-Identifier: Apache-2.0
//! The injector's webhook: `AdmissionReview`s over HTTPS, answered as istiod does.

use std::convert::Infallible;
use std::env;
use std::future::pending;
use std::sync::Arc;

use ::injector::{Config, Placement, Programming, allowed, answer};
use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::line;
use crate::listen::{self, On};

/// The environment variables with its certificate and its key, as PEM.
pub const CERTIFICATE: &str = "LAB_CERTIFICATE";
pub const KEY: &str = "LAB_KEY";

/// Options of the webhook.
#[derive(Debug, Clone, Args)]
pub struct InjectorOptions {
    /// The port.
    #[arg(long, default_value_t = 15017)]
    port: u16,
    /// Image of what it injects.
    #[arg(long)]
    image: String,
    /// Pods program their rules themselves, as without the plugin.
    #[arg(long)]
    init: bool,
    /// Proxies are native sidecars.
    #[arg(long)]
    native: bool,
}

impl InjectorOptions {
    fn mesh(&self) -> Config {
        Config {
            programming: if self.init { Programming::Init } else { Programming::Cni },
            image: self.image.clone(),
            placement: if self.native { Placement::Native } else { Placement::Beside },
            ..Config::default()
        }
    }
}

/// Answers until killed.
pub async fn run(options: &InjectorOptions) -> anyhow::Result<()> {
    let tls = TlsAcceptor::from(Arc::new(identity()?));
    let mesh = Arc::new(options.mesh());
    for listener in listen::tcp(On::Any, options.port)? {
        tokio::spawn(accept(listener, tls.clone(), Arc::clone(&mesh)));
    }
    line::announce(&format!("ready https:{}", options.port))?;
    pending().await
}

/// The server's side of TLS, with the identity that the environment has.
fn identity() -> anyhow::Result<ServerConfig> {
    let text = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
    let certificates =
        CertificateDer::pem_slice_iter(text(CERTIFICATE)?.as_bytes()).collect::<Result<_, _>>();
    let certificates = certificates.with_context(|| format!("{CERTIFICATE} has no certificate"))?;
    let key =
        PrivateKeyDer::from_pem_slice(text(KEY)?.as_bytes()).with_context(|| format!("{KEY} has no key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    Ok(config)
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, mesh: Arc<Config>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, tls.clone(), Arc::clone(&mesh)));
        }
    }
}

/// Errors of a connection are the client's.
async fn connection(stream: TcpStream, tls: TlsAcceptor, mesh: Arc<Config>) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| reply(request, Arc::clone(&mesh)));
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn reply(request: Request<Incoming>, mesh: Arc<Config>) -> Result<Response<Full<Bytes>>, Infallible> {
    let reply: Option<fn(&Value, &Config) -> Value> = match request.uri().path() {
        "/inject" => Some(answer),
        // A policy agent's, which admits what it is asked about.
        "/validate" => Some(|review, _| allowed(review)),
        _ => None,
    };
    let review = request.into_body().collect().await.ok();
    let review = review.and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let (code, body) = match (reply, review) {
        (None, _) => (StatusCode::NOT_FOUND, Bytes::new()),
        (Some(_), None) => (StatusCode::BAD_REQUEST, Bytes::from_static(b"no AdmissionReview")),
        (Some(reply), Some(review)) => (StatusCode::OK, Bytes::from(reply(&review, &mesh).to_string())),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    Ok(response)
}
