// SPDX-License-Identifier: Apache-2.0
//! The connections of `log.sock`: `POST /log` with a JSON array of strings, each a log line of the plugin. Any user may log, so everything
//! about it is bounded; and whatever comes is answered with 200, as upstream's plugin expects.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::log::Log;

/// The socket's file name in the run directory.
pub const LOG_SOCKET: &str = "log.sock";

/// Connections at a time; others wait in the kernel's queue.
const CONNECTIONS: usize = 32;

/// How long a connection may last: the plugin waits for a second.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The largest request: a call logs a few lines.
const BODY_LIMIT: usize = 256 * 1024;

/// The longest line.
const LINE_LIMIT: usize = 16 * 1024;

/// Pause after an accept that failed: there may be no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes lines from whoever connects until it is cancelled.
pub async fn take_lines(listener: UnixListener, log: Log, cancel: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let log = Arc::new(log);
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((place, listener.accept().await?.0))
        };
        match cancel.run_until_cancelled(accepted).await {
            None => return,
            Some(Err(_)) => {
                let _ = tokio::time::timeout(ACCEPT_PAUSE, cancel.cancelled()).await;
            }
            Some(Ok((place, stream))) => {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(TIME_LIMIT, connection(stream, log)).await;
                    drop(place);
                });
            }
        }
    }
}

async fn connection(stream: UnixStream, log: Arc<Log>) {
    let service = service_fn(move |request| {
        let log = Arc::clone(&log);
        async move { Ok::<_, Infallible>(request_done(request, &log).await) }
    });
    // What goes wrong with a connection is its client's business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(16 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn request_done(request: Request<Incoming>, log: &Log) -> Response<Empty<Bytes>> {
    let mut answer = Response::new(Empty::new());
    if request.uri().path() != "/log" {
        *answer.status_mut() = StatusCode::NOT_FOUND;
        return answer;
    }
    if let Ok(body) = Limited::new(request.into_body(), BODY_LIMIT).collect().await {
        let skipped = relay(&body.to_bytes(), log);
        if skipped > 0 {
            tracing::warn!(target: "cni-agent", skipped, "lines of a plugin cannot be read");
        }
    }
    answer
}

/// Hands lines to the log; how many it did not take.
fn relay(body: &[u8], log: &Log) -> usize {
    let Ok(lines) = serde_json::from_slice::<Vec<String>>(body) else { return 1 };
    lines.iter().filter(|line| line.len() > LINE_LIMIT || log.relay(line).is_err()).count()
}
