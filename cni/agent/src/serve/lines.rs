// SPDX-License-Identifier: Apache-2.0
//! The connections of `log.sock`: `POST /log` with a JSON array of strings, each a log line of the plugin. Any user may log, so everything
//! about it is bounded, and what a stranger says is not counted; whatever comes is answered with 200, as upstream's plugin expects.

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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fairness::{Desk, Share};
use super::lookup::Lookup;
use super::phases;
use crate::accept;
use crate::log::Log;
use crate::metrics::{LineSkipped, Metrics};

pub const LOG_SOCKET: &str = "log.sock";

/// Concurrent connections; others wait in the kernel's backlog.
const CONNECTIONS: usize = 32;

/// Deadline of a connection: the plugin waits for a second.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Size limit of a request: a call logs a few lines.
const BODY_LIMIT: usize = 256 * 1024;

const LINE_LIMIT: usize = 16 * 1024;

/// Maximum number of lines in a request.
const LINES_LIMIT: usize = 128;

/// Of our own user: a node's plugins, all its pods starting at once included.
const OWN: Share = Share { open: 32, burst: 1024.0, rate: 128.0 };

/// Shared limit of all other users: it never exhausts the connections.
const OTHERS: Share = Share { open: 8, burst: 64.0, rate: 4.0 };

#[derive(Debug, Clone)]
struct Sink {
    log: Log,
    metrics: Metrics,
    /// Told of each ADD that ended.
    lookup: Lookup,
}

/// Sender of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    /// Our own user: the plugin, which runtimes start as root.
    Own,
    Stranger,
}

impl Speaker {
    fn of(stream: &UnixStream) -> Self {
        let own = rustix::process::geteuid().as_raw();
        if stream.peer_cred().is_ok_and(|peer| peer.uid() == own) { Self::Own } else { Self::Stranger }
    }
}

/// Takes lines until cancelled.
pub async fn take_lines(listener: UnixListener, log: Log, lookup: Lookup, cancel: CancellationToken) {
    let (start, room) = (Instant::now(), Arc::new(Semaphore::new(CONNECTIONS)));
    let (own, others) = (Desk::new(OWN), Desk::new(OTHERS));
    let sink = Sink { log, metrics: lookup.metrics().clone(), lookup };
    while let Some((place, (stream, _))) =
        accept::next(LOG_SOCKET, || listener.accept(), &room, &cancel).await
    {
        let speaker = Speaker::of(&stream);
        let desk = if speaker == Speaker::Own { &own } else { &others };
        // A call is a process of its own, so all of a user's count together.
        let Some(seat) = desk.seat((), start.elapsed()) else {
            sink.metrics.line_skipped(LineSkipped::TooMany);
            continue;
        };
        let sink = sink.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(TIME_LIMIT, connection(stream, sink, speaker)).await;
            drop((seat, place));
        });
    }
}

async fn connection(stream: UnixStream, sink: Sink, speaker: Speaker) {
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(request_done(request, &sink, speaker).await) });
    // A client's errors are its own business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(16 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn request_done(request: Request<Incoming>, sink: &Sink, speaker: Speaker) -> Response<Empty<Bytes>> {
    let mut answer = Response::new(Empty::new());
    if request.uri().path() != "/log" {
        *answer.status_mut() = StatusCode::NOT_FOUND;
        return answer;
    }
    match Limited::new(request.into_body(), BODY_LIMIT).collect().await {
        Ok(body) => sink.relay(&body.to_bytes(), speaker),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => sink.skip(LineSkipped::TooLong),
        // It broke off.
        Err(_) => {}
    }
    answer
}

impl Sink {
    /// Logs lines, and records their metrics.
    fn relay(&self, body: &[u8], speaker: Speaker) {
        let Ok(lines) = serde_json::from_slice::<Vec<String>>(body) else {
            return self.skip(LineSkipped::Malformed);
        };
        if lines.len() > LINES_LIMIT {
            self.skip(LineSkipped::TooLong);
        }
        for line in lines.iter().take(LINES_LIMIT) {
            if line.len() > LINE_LIMIT {
                self.skip(LineSkipped::TooLong);
            } else if self.log.relay(line).is_err() {
                self.skip(LineSkipped::Malformed);
            } else if let (Speaker::Own, Some((result, phases))) = (speaker, phases::of_line(line)) {
                phases.into_iter().for_each(|(phase, took)| self.metrics.add(phase, result, took));
                phases::pod_of_line(line).into_iter().for_each(|pod| self.lookup.logged(&pod));
            }
        }
    }

    fn skip(&self, why: LineSkipped) {
        self.metrics.line_skipped(why);
        tracing::debug!(target: "cni-agent", why = why.name(), "a line of a plugin is not taken");
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
