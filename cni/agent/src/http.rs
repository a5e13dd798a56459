// SPDX-License-Identifier: Apache-2.0
//! HTTP endpoints: `/metrics` on one port, `/healthz` and `/readyz` on the other. There is no authentication, so nothing can be changed and
//! nothing secret can be read. `/settings`, next to `/readyz`, is answered within the agent's own network alone.
//!
//! A port that cannot be bound is logged and retried. The agent goes on: a node whose pods get their rules is better off than one whose
//! agent ends because of its probe's port, and the probe tells of it by itself.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_ipv6_v6only;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::accept;
use crate::metrics::{Exposition, Metrics};
use crate::probe;
use crate::readiness::{Missing, Readiness};
use crate::serve::fairness::{Desk, Share};
use crate::settings::effective::{Effective, SettingsReport};

/// Port of the kubelet's probes; upstream's.
pub const HEALTH_PORT: u16 = 8000;

/// Concurrent connections of a port. The kubelet and a few scrapers need a handful.
const CONNECTIONS: usize = 64;
/// Of one address: no pod with an address of its own keeps the kubelet's probe waiting.
const SHARE: Share = Share { open: 16, burst: f64::INFINITY, rate: 0.0 };
/// Deadline of a connection, from its first byte to its last. One answer each: a scraper connects once a minute.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
/// Deadline of a request's head.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of a request's head, in bytes.
const HEAD_SIZE: usize = 16 * 1024;
/// Maximum number of headers.
const HEADERS: usize = 64;
/// Connections that the kernel keeps until they are accepted; [`TcpListener::bind`]'s number.
const BACKLOG: u32 = 1024;
/// Retry interval for a port that is taken.
const AGAIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct HttpState {
    pub metrics: Metrics,
    pub readiness: Readiness,
    pub settings: watch::Receiver<SettingsReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// `/healthz`, `/readyz` and `/settings`
    Health,
    /// `/metrics`
    Monitoring,
}

/// Body of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub ready: bool,
    /// Unready parts, each with the reason.
    #[serde(default)]
    pub missing: std::collections::BTreeMap<String, String>,
}

/// Serves [`HEALTH_PORT`], and `/metrics` on the port `monitoring`, until `stop`.
pub async fn both(state: HttpState, monitoring: Option<u16>, stop: CancellationToken) {
    let metrics = async {
        if let Some(port) = monitoring {
            serve(port, Purpose::Monitoring, state.clone(), stop.clone()).await;
        }
    };
    tokio::join!(serve(HEALTH_PORT, Purpose::Health, state.clone(), stop.clone()), metrics);
}

/// Serves the agent's ports and its socket for probes until `stop`.
pub async fn of_agent(state: HttpState, monitoring: Option<u16>, stop: CancellationToken) {
    tokio::join!(for_probes(state.clone(), stop.clone()), both(state, monitoring, stop));
}

/// Answers probes of the agent's own container (`install-cni probe`) until `stop`. Another user of the node's network is not answered.
async fn for_probes(state: HttpState, stop: CancellationToken) {
    let Some(listener) = listen_until("probes' socket", listen_for_probes, &stop).await else { return };
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Some((place, (stream, _))) =
        accept::next("probes' socket", || listener.accept(), &room, &stop).await
    {
        if !stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw()) {
            continue;
        }
        let state = state.clone();
        tokio::spawn(async move {
            let answered = answer_one(stream, Asker::Far, Purpose::Health, state);
            let _ = timeout(CONNECTION_LIMIT, answered).await;
            drop(place);
        });
    }
}

/// Listens on `port`, on every address of the pod, and answers until `stop`. A port that is taken is tried again.
pub async fn serve(port: u16, purpose: Purpose, state: HttpState, stop: CancellationToken) {
    let what = format!("port {port}");
    if let Some(listener) = listen_until(&what, || listen(port), &stop).await {
        tracing::info!(target: "cni-agent", port, ?purpose, "listening");
        answer_all(listener, purpose, state, stop).await;
    }
}

/// Tries to listen until it succeeds; `None` after `stop`.
async fn listen_until<L>(
    what: &str,
    listen: impl Fn() -> io::Result<L>,
    stop: &CancellationToken,
) -> Option<L> {
    let mut said = false;
    while !stop.is_cancelled() {
        match listen() {
            Ok(listener) => return Some(listener),
            Err(error) if !said => {
                tracing::error!(target: "cni-agent", what, %error, "failed to listen; trying again every 5 s");
                said = true;
            }
            Err(_) => {}
        }
        let _ = timeout(AGAIN, stop.cancelled()).await;
    }
    None
}

fn listen_for_probes() -> io::Result<UnixListener> {
    let listener = probe::listen()?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Binds both families where the kernel has both.
fn listen(port: u16) -> io::Result<TcpListener> {
    match listen_on(TcpSocket::new_v6(), SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listen_on(TcpSocket::new_v4(), SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        listener => listener,
    }
}

fn listen_on(socket: io::Result<TcpSocket>, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket?;
    if address.is_ipv6() {
        // net.ipv6.bindv6only may be on.
        set_ipv6_v6only(&socket, false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Answers on `listener` until `stop`. Connections that are open then end by their own limit.
pub async fn answer_all(listener: TcpListener, purpose: Purpose, state: HttpState, stop: CancellationToken) {
    let (start, room, desk) = (Instant::now(), Arc::new(Semaphore::new(CONNECTIONS)), Desk::new(SHARE));
    let what = match purpose {
        Purpose::Health => "health port",
        Purpose::Monitoring => "monitoring port",
    };
    while let Some((place, (stream, peer))) = accept::next(what, || listener.accept(), &room, &stop).await {
        // Who has its share is closed at once, so that others find a place.
        let Some(seat) = desk.seat(peer.ip().to_canonical(), start.elapsed()) else { continue };
        let state = state.clone();
        tokio::spawn(async move {
            // A peer that is slow or gone harms itself.
            let _ = timeout(CONNECTION_LIMIT, answer_one(stream, Asker::at(peer), purpose, state)).await;
            drop((place, seat));
        });
    }
}

async fn answer_one(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    asker: Asker,
    purpose: Purpose,
    state: HttpState,
) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = answer(purpose, asker, &request, &state);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_LIMIT)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_SIZE)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// Origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A process of the agent's own network.
    Near,
    Far,
}

impl Asker {
    fn at(peer: SocketAddr) -> Self {
        if peer.ip().to_canonical().is_loopback() { Self::Near } else { Self::Far }
    }
}

type HttpResponse = Response<Full<Bytes>>;

fn answer<Body>(purpose: Purpose, asker: Asker, request: &Request<Body>, state: &HttpState) -> HttpResponse {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match (purpose, request.uri().path()) {
        (Purpose::Monitoring, "/metrics") => metrics(state, Exposition::for_accept(accept)),
        (Purpose::Health, "/healthz") => plain(StatusCode::OK, "ok\n"),
        (Purpose::Health, "/readyz") => ready(&state.readiness.missing(), accept),
        (Purpose::Health, "/settings") => settings(asker, &state.settings.borrow()),
        (Purpose::Monitoring, _) => plain(StatusCode::NOT_FOUND, "here is /metrics\n"),
        (Purpose::Health, _) => plain(StatusCode::NOT_FOUND, "here are /healthz and /readyz\n"),
    }
}

fn metrics(state: &HttpState, exposition: Exposition) -> HttpResponse {
    state.metrics.readiness(&state.readiness.missing());
    match state.metrics.scrape(exposition) {
        Ok(text) => body(StatusCode::OK, exposition.content_type(), text),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "a metric cannot be written\n"),
    }
}

fn ready(missing: &Missing, accept: &str) -> HttpResponse {
    let is_ready = missing.is_ready();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if accept.contains("application/json") {
        let missing = missing.iter().map(|(part, why)| (part.name().to_owned(), why.to_owned())).collect();
        let json = serde_json::to_string(&Ready { ready: is_ready, missing }).unwrap_or_default();
        return body(status, "application/json", json + "\n");
    }
    if is_ready {
        return plain(status, "ready\n");
    }
    let lines = missing.iter().map(|(part, why)| format!("{}: {why}\n", part.name()));
    plain(status, ["not ready\n".to_owned()].into_iter().chain(lines).collect::<String>())
}

fn settings(asker: Asker, report: &SettingsReport) -> HttpResponse {
    if asker == Asker::Far {
        return plain(StatusCode::FORBIDDEN, "only for processes of the agent's own network\n");
    }
    let json = serde_json::to_string(&Effective::from(report)).unwrap_or_default();
    body(StatusCode::OK, "application/json", json + "\n")
}

fn plain(status: StatusCode, text: impl Into<String>) -> HttpResponse {
    body(status, "text/plain; charset=utf-8", text.into())
}

fn body(status: StatusCode, content_type: &'static str, text: String) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
