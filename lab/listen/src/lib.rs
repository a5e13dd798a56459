// SPDX-License-Identifier: Apache-2.0
//! HTTP servers of the lab: connections are accepted, decrypted and answered until the handle is dropped. The listener comes from the
//! caller, who may have made it in another network namespace; who answers is a [`Handler`]. What handlers have in common: a request's
//! [`Query`], and the [`Arrivals`] so far.

mod arrivals;
mod query;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use self::arrivals::Arrivals;
pub use self::query::{Query, decoded};
pub use self::tls::{Tls, TlsError};

/// Grace for requests and handshakes in progress when the server stops.
const GRACE: Duration = Duration::from_millis(500);
/// Deadline of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after a failed accept (no file descriptors left, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of a response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Error of starting to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("take over the listener")]
    Listener(#[from] std::io::Error),
}

/// A request that is not answered: its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the request is not answered")]
pub struct Unanswered(#[source] pub BoxError);

/// Extension of every request: turns true when the server closes. A connection that was upgraded is none of the server's any more.
#[derive(Debug, Clone)]
pub struct Closing(watch::Receiver<bool>);

impl Closing {
    /// Waits until the server closes.
    pub async fn wait(mut self) {
        // An error means that the server is gone.
        drop(self.0.wait_for(|closing| *closing).await);
    }
}

/// An answer that is being made.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Unanswered>> + Send>>;

/// Answerer of requests.
pub trait Handler: Clone + Send + Sync + 'static {
    /// A new connection, before its TLS handshake; `None` if it was closed.
    fn connected(&self, stream: TcpStream) -> impl Future<Output = Option<TcpStream>> + Send {
        async { Some(stream) }
    }

    /// Answers a request.
    fn answer(self, request: Request<Incoming>) -> Answer;
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

/// Serves a listener. Must be called inside of a tokio runtime.
///
/// # Errors
/// [`ServeError`] if the listener cannot be used.
pub fn serve(
    handler: impl Handler,
    listener: std::net::TcpListener,
    tls: &Tls,
) -> Result<ServerHandle, ServeError> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    let (closing, closed) = watch::channel(false);
    let accepted = Arc::new(AtomicU64::new(0));
    let server = Server { handler, tls: tls.clone(), closed };
    let task = tokio::spawn(accept(listener, server, Arc::clone(&accepted)));
    Ok(ServerHandle { address, accepted, closing, task: Some(task) })
}

#[derive(Clone)]
struct Server<H> {
    handler: H,
    tls: Tls,
    closed: watch::Receiver<bool>,
}

async fn accept(listener: TcpListener, server: Server<impl Handler>, accepted: Arc<AtomicU64>) {
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

impl<H: Handler> Server<H> {
    async fn connection(self, stream: TcpStream) {
        // Without it small answers wait for the client's delayed acknowledgement.
        let _best_effort = stream.set_nodelay(true);
        let (tls, changes) = self.tls.follow();
        let mut term = Term { closed: self.closed.clone(), tls: changes };
        let stream = tokio::select! {
            stream = self.handler.connected(stream) => stream,
            () = term.over() => return,
        };
        let Some(stream) = stream else { return };
        let Some(tls) = tls else { return self.requests(stream, term).await };
        let handshake = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = term.over() => return,
        };
        if let Ok(Ok(stream)) = stream {
            self.requests(stream, term).await;
        }
    }

    /// Errors of a connection are the client's, or the handler's, which knows of them.
    async fn requests<S>(self, stream: S, mut term: Term)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (handler, closing) = (self.handler, Closing(self.closed));
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(closing.clone());
            handler.clone().answer(request)
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection.with_upgrades());
        tokio::select! {
            _ended = connection.as_mut() => return,
            () = term.over() => {}
        }
        if !*term.closed.borrow() {
            // The server was killed, as it were, and there is another one.
            return;
        }
        connection.as_mut().graceful_shutdown();
        let _ended = tokio::time::timeout(GRACE, connection).await;
    }
}

/// Lifetime of a connection.
struct Term {
    closed: watch::Receiver<bool>,
    tls: watch::Receiver<()>,
}

impl Term {
    /// Waits until the server closes, or serves with another certificate.
    async fn over(&mut self) {
        tokio::select! {
            _ = self.closed.wait_for(|closed| *closed) => {}
            _ = self.tls.changed() => {}
        }
    }
}
