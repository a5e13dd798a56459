// SPDX-License-Identifier: Apache-2.0
//! Connections to the API server, and what every request carries. A request that is refused with 401 is sent once more if the token's
//! file holds another token by now.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower::{BoxError, Service, ServiceExt as _};

use super::account::Account;
use super::tls::Trust;

/// Deadline of a connection, its handshake included.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A connection whose other end went away without a word is given up after about this long, watches included.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Keep-alive of an idle connection.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Maximum of bytes read ahead.
const BUFFER_SIZE: usize = 64 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Transport {
    http: Client<Connector, Full<Bytes>>,
    base: Uri,
    account: Account,
}

impl Transport {
    pub(super) fn new(base: Uri, trust: Option<Trust>, account: Account) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.set_keepalive(Some(SILENCE_LIMIT / 2));
        tcp.set_keepalive_interval(Some(SILENCE_LIMIT / 6));
        tcp.set_keepalive_retries(Some(3));
        tcp.set_tcp_user_timeout(Some(SILENCE_LIMIT));
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .http1_max_buf_size(BUFFER_SIZE)
            .build(Connector { tcp, trust });
        Self { http, base, account }
    }

    pub(super) async fn exchange(
        self,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Incoming>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        parts.uri = self.complete(&parts.uri)?;
        parts
            .headers
            .insert(USER_AGENT, HeaderValue::from_static(concat!("millrace/", env!("CARGO_PKG_VERSION"))));
        parts.headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        let mut token = self.account.header()?;
        let mut response = self.send(&parts, &body, &token).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(other) = self.account.instead_of(&token)
        {
            response = self.send(&parts, &body, &other).await?;
            token = other;
        }
        match response.status() {
            StatusCode::UNAUTHORIZED => {
                let token = self.account.token(&token, response.headers());
                response.extensions_mut().insert(token);
            }
            status if status.is_success() => self.account.accepted(),
            _ => {}
        }
        Ok(response)
    }

    fn complete(&self, path: &Uri) -> Result<Uri, http::Error> {
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = path.path_and_query().cloned();
        Ok(Uri::from_parts(parts)?)
    }

    async fn send(
        &self,
        parts: &Parts,
        body: &Bytes,
        token: &HeaderValue,
    ) -> Result<Response<Incoming>, BoxError> {
        let mut parts = parts.clone();
        parts.headers.insert(AUTHORIZATION, token.clone());
        Ok(self.http.request(Request::from_parts(parts, Full::new(body.clone()))).await?)
    }
}

/// Plain or TLS connection.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Connection for Box<dyn Duplex> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Opens connections, with TLS if there is an authority.
#[derive(Debug, Clone)]
struct Connector {
    tcp: HttpConnector,
    trust: Option<Trust>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Duplex>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.clone().connect(to);
        Box::pin(async { tokio::time::timeout(CONNECT_LIMIT, connecting).await? })
    }
}

impl Connector {
    async fn connect(self, to: Uri) -> Result<TokioIo<Box<dyn Duplex>>, BoxError> {
        // An IPv6 address stands in brackets in a URI, and without them in a certificate.
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let stream = self.tcp.oneshot(to).await?.into_inner();
        let Some(trust) = self.trust else { return Ok(TokioIo::new(Box::new(stream))) };
        let tls = TlsConnector::from(trust.config()?);
        Ok(TokioIo::new(Box::new(tls.connect(ServerName::try_from(host)?, stream).await?)))
    }
}
