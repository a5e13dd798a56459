// SPDX-License-Identifier: Apache-2.0
//! Listening: connections are accepted, decrypted and answered until the handle is dropped. The listener comes from the
//! caller, who may have made it in another network namespace.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::exec::Closed;
use crate::faults::Connecting;
use crate::shared::Shared;

/// Grace for requests and handshakes in progress when the server stops.
const GRACE: Duration = Duration::from_millis(500);
/// Deadline of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after a failed accept (no file descriptors left, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Error of starting to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("take over the listener")]
    Listener(#[from] std::io::Error),
}

/// A server that is listening. It stops when this is dropped: no connection is accepted any more, requests in progress
/// get half a second.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
    closing: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl ServerHandle {
    /// Listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Number of accepted connections: shows if a client keeps its connection alive.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Stops, and waits until the listener and every connection are closed.
    pub async fn stop(mut self) {
        self.closing.send_replace(true);
        if let Some(task) = self.task.take() {
            // An error means that the runtime is going down, and the task with it.
            let _ended = task.await;
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.closing.send_replace(true);
    }
}

/// Serves a listener, with TLS if there is a configuration.
pub(crate) fn serve(
    shared: Arc<Shared>,
    listener: std::net::TcpListener,
    tls: Option<Arc<ServerConfig>>,
) -> Result<ServerHandle, ServeError> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    let (closing, closed) = watch::channel(false);
    let accepted = Arc::new(AtomicU64::new(0));
    let server = Server { shared, tls: tls.map(TlsAcceptor::from), closed };
    let task = tokio::spawn(accept(listener, server, Arc::clone(&accepted)));
    Ok(ServerHandle { address, accepted, closing, task: Some(task) })
}

#[derive(Clone)]
struct Server {
    shared: Arc<Shared>,
    tls: Option<TlsAcceptor>,
    closed: watch::Receiver<bool>,
}

async fn accept(listener: TcpListener, server: Server, accepted: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    let mut closed = server.closed.clone();
    loop {
        let stream = tokio::select! {
            _ = closed.wait_for(|closed| *closed) => break,
            Some(_) = connections.join_next() => continue,
            stream = listener.accept() => stream,
        };
        if let Ok((stream, _)) = stream {
            accepted.fetch_add(1, Ordering::Relaxed);
            connections.spawn(server.clone().connection(stream));
        } else if tokio::time::timeout(ACCEPT_PAUSE, closed.wait_for(|closed| *closed)).await.is_ok() {
            break;
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

impl Server {
    async fn connection(mut self, stream: TcpStream) {
        // Without it small answers wait for the client's delayed acknowledgement.
        let _best_effort = stream.set_nodelay(true);
        let mut closed = self.closed.clone();
        let stream = tokio::select! {
            stream = self.connected(stream) => stream,
            _ = closed.wait_for(|closed| *closed) => return,
        };
        let Some(stream) = stream else { return };
        let Some(tls) = self.tls.take() else { return self.requests(stream).await };
        let handshake = tokio::time::timeout(HANDSHAKE, tls.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            _ = closed.wait_for(|closed| *closed) => return,
        };
        if let Ok(Ok(stream)) = stream {
            self.requests(stream).await;
        }
    }

    /// Applies a fault to a new connection; `None` if that closed it.
    async fn connected(&self, stream: TcpStream) -> Option<TcpStream> {
        match self.shared.faults().connecting() {
            None => return Some(stream),
            Some(Connecting::Delay(pause)) => {
                crate::answer::pause(pause).await;
                return Some(stream);
            }
            Some(Connecting::Hang) => {
                self.shared.faults().changes().changed().await.ok()?;
                return Some(stream);
            }
            Some(Connecting::ResetHandshake) => stream.readable().await.ok()?,
            Some(Connecting::Reset) => {}
        }
        // Closed with bytes that nobody read, or without lingering: the client sees a reset.
        let _best_effort = stream.set_zero_linger();
        None
    }

    /// Errors of a connection are the client's, or a fault that was asked for: the request log tells.
    async fn requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(mut self, stream: S) {
        let (shared, closed) = (Arc::clone(&self.shared), self.closed.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            // A connection that was upgraded is none of hyper's any more.
            request.extensions_mut().insert(Closed(closed.clone()));
            Arc::clone(&shared).answer(None, request)
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection.with_upgrades());
        tokio::select! {
            _ended = connection.as_mut() => return,
            _ = self.closed.wait_for(|closed| *closed) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ended = tokio::time::timeout(GRACE, connection).await;
    }
}
