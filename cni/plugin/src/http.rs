// SPDX-License-Identifier: Apache-2.0
//! One keep-alive connection to the API server. Made only when somebody must be asked; nothing of TLS exists before.
//! [`crate::api`] interprets responses and decides about retries.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, config::Config};

use crate::kubeconfig::{Endpoint, Secret, Trust};

/// The longest pod we read. etcd holds 1.5 MiB; JSON takes more room than what is stored.
pub const MAX_BODY: u64 = 8 * 1024 * 1024;

/// Room for one TLS record of the longest kind. Buffers are filled with zeros before they are used, each page of them a fault.
const BUFFER: usize = 17 * 1024;

/// A complete answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After`, if it names seconds.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nothing came in time.
    #[error("failed to get an answer within {0:?}")]
    Late(Duration),
    /// The connection failed or broke.
    #[error("failed to talk to it: {0}")]
    Connection(io::Error),
    /// The server is not who it must be: asking again does not help.
    #[error("failed to trust its certificate: {0}")]
    Certificate(rustls::Error),
    /// Malformed HTTP, or too long.
    #[error("failed to understand its answer: {0}")]
    Protocol(ureq::Error),
    /// The kubeconfig's certificates or server cannot be used.
    #[error("failed to use the kubeconfig's {0}")]
    Setup(&'static str),
}

/// Makes connections.
pub trait Api {
    /// Prepares a connection to `endpoint`; nothing is sent yet.
    ///
    /// # Errors
    /// When its certificates or token are unusable.
    fn open(&self, endpoint: &Endpoint) -> Result<Box<dyn Connection>, HttpError>;
}

/// A connection that serves one request after the other.
pub trait Connection {
    /// GETs `path`.
    ///
    /// # Errors
    /// When no complete answer came within `limit`.
    fn get(&mut self, path: &str, limit: Duration) -> Result<HttpResponse, HttpError>;
}

/// HTTP/1.1 over TCP or TLS.
#[derive(Debug, Clone, Copy)]
pub struct HttpApi;

impl Api for HttpApi {
    fn open(&self, endpoint: &Endpoint) -> Result<Box<dyn Connection>, HttpError> {
        let mut config = Config::builder()
            .user_agent(concat!("istio-cni/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(1)
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            // The server is the node's own: a proxy for the internet, in the container runtime's environment, is not for it.
            .proxy(None);
        if endpoint.server.starts_with("https://") {
            config = config.tls_config(tls(endpoint)?);
        }
        let agent = Agent::with_parts(config.build(), DefaultConnector::default(), LiteralFirst::default());
        Ok(Box::new(HttpConnection { agent, server: endpoint.server.clone(), token: endpoint.token.clone() }))
    }
}

fn tls(endpoint: &Endpoint) -> Result<TlsConfig, HttpError> {
    let mut builder = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    builder = match &endpoint.trust {
        Trust::Anyone => builder.disable_verification(true),
        Trust::Authorities(pem) => {
            // One that cannot be used does not take the others with it.
            let roots: Vec<_> = certificates(pem).filter_map(Result::ok).collect();
            if roots.is_empty() {
                return Err(HttpError::Setup("certificate-authority"));
            }
            builder.root_certs(RootCerts::Specific(Arc::new(roots)))
        }
    };
    if let Some(client) = &endpoint.client {
        let chain: Result<Vec<_>, _> = certificates(&client.chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(HttpError::Setup("client-certificate"))?;
        let key = PrivateKey::from_pem(client.key.expose()).map_err(|_| HttpError::Setup("client-key"))?;
        builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(builder.build())
}

fn certificates(pem: &[u8]) -> impl Iterator<Item = Result<Certificate<'static>, ureq::Error>> + '_ {
    ureq::tls::parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

struct HttpConnection {
    agent: Agent,
    server: String,
    token: Option<Secret>,
}

impl Connection for HttpConnection {
    fn get(&mut self, path: &str, limit: Duration) -> Result<HttpResponse, HttpError> {
        let mut request =
            self.agent.get(format!("{}{path}", self.server)).header("Accept", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {}", token.expose()));
        }
        let mut response = request
            .config()
            .timeout_global(Some(limit))
            .build()
            .call()
            .map_err(|error| classify(error, limit))?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
        // The body is read to its end whatever the status, or the connection could not be used again.
        let body = response.body_mut().with_config().limit(MAX_BODY).read_to_vec();
        let body = body.map_err(|error| classify(error, limit))?;
        Ok(HttpResponse { status, retry_after: retry_after.map(Duration::from_secs), body })
    }
}

fn classify(error: ureq::Error, limit: Duration) -> HttpError {
    match error {
        ureq::Error::Timeout(_) => HttpError::Late(limit),
        ureq::Error::Io(io) => {
            let tls = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match tls {
                Some(tls @ rustls::Error::InvalidCertificate(_)) => HttpError::Certificate(tls.clone()),
                _ => HttpError::Connection(io),
            }
        }
        ureq::Error::Rustls(tls @ rustls::Error::InvalidCertificate(_)) => HttpError::Certificate(tls),
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
            HttpError::Connection(io::Error::new(io::ErrorKind::NotFound, error.to_string()))
        }
        ureq::Error::BadUri(_) => HttpError::Setup("server"),
        // A header that cannot be built: the token is the only one that is not ours. The error might quote it.
        ureq::Error::Http(_) => HttpError::Setup("token"),
        other => HttpError::Protocol(other),
    }
}

/// Takes an address as it is, without the thread that a name needs.
#[derive(Debug, Default)]
struct LiteralFirst(DefaultResolver);

impl Resolver for LiteralFirst {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let Ok(address) = host.parse::<IpAddr>() else { return self.0.resolve(uri, config, timeout) };
        let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let mut found = self.empty();
        found.push(SocketAddr::new(address, uri.port_u16().unwrap_or(default_port)));
        Ok(found)
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
