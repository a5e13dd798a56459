// SPDX-License-Identifier: Apache-2.0
//! The connections of `agent.sock`: one question, one answer, each with a deadline. Only processes of our own user are answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::agent::{
    LineError, Reply, Request, RequestKind, Response, SOCKET, VERSION, decode_line, encode_line, found_line,
};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fairness::{Desk, Share};
use super::lookup::{Lookup, LookupResult};
use super::peer::Peer;
use crate::accept;
use crate::metrics::{AddPhase, AddResult};

/// Limits of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Permitted user.
    pub uid: u32,
    /// Concurrent connections; others wait in the kernel's backlog.
    pub connections: usize,
    /// Size limit of a request.
    pub line: usize,
    /// Read deadline.
    pub read: Duration,
    /// Write deadline.
    pub write: Duration,
    /// Limits of one process.
    pub share: Share,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            connections: 256,
            line: 4096,
            read: Duration::from_millis(300),
            write: Duration::from_millis(500),
            share: Share { open: 64, burst: 512.0, rate: 256.0 },
        }
    }
}

/// Serves connections until cancelled.
pub async fn answer(listener: UnixListener, lookup: Lookup, limits: Limits, cancel: CancellationToken) {
    let (start, room) = (Instant::now(), Arc::new(Semaphore::new(limits.connections)));
    let desk = Desk::new(limits.share);
    while let Some((place, (stream, _))) = accept::next(SOCKET, || listener.accept(), &room, &cancel).await {
        if !admitted(&stream, &limits) {
            continue;
        }
        let peer = Peer::of(&stream);
        let seat = match peer.map(|peer| desk.seat(peer, start.elapsed())) {
            Some(None) => {
                tracing::debug!(target: "cni-agent", ?peer, "a process asks too much and is turned away");
                continue;
            }
            // A process without an identity is bound by the shared limit alone.
            seat => seat.flatten(),
        };
        let lookup = lookup.clone();
        tokio::spawn(async move {
            if let Err(error) = exchange(stream, &lookup, &limits).await {
                tracing::debug!(target: "cni-agent", ?peer, %error, "a question was not answered");
            }
            drop((seat, place));
        });
    }
}

/// True if the peer's user is permitted: the kernel recorded it at connect.
fn admitted(stream: &UnixStream, limits: &Limits) -> bool {
    let Ok(peer) = stream.peer_cred() else { return false };
    let known = peer.uid() == limits.uid;
    if !known {
        tracing::warn!(target: "cni-agent", uid = peer.uid(), "a stranger is not answered");
    }
    known
}

async fn exchange(mut stream: UnixStream, lookup: &Lookup, limits: &Limits) -> io::Result<()> {
    let line = tokio::time::timeout(limits.read, read_line(&mut stream, limits.line)).await??;
    let start = Instant::now();
    let (text, timed) = reply(&line, lookup).await.map_err(io::Error::other)?;
    tokio::time::timeout(limits.write, stream.write_all(&text)).await??;
    if let Some(result) = timed {
        lookup.metrics().add(AddPhase::Answer, result, start.elapsed());
    }
    Ok(())
}

/// First line, truncated to `limit`.
async fn read_line(stream: &mut UnixStream, limit: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(512);
    while line.len() <= limit {
        let had = line.len();
        if stream.read_buf(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = line[had..].iter().position(|&byte| byte == b'\n') {
            line.truncate(had + end + 1);
            break;
        }
    }
    line.truncate(limit);
    Ok(line)
}

/// The line that replies to a line, and what it was if it belongs to an ADD.
async fn reply(line: &[u8], lookup: &Lookup) -> Result<(Vec<u8>, Option<AddResult>), LineError> {
    let Ok(request) = decode_line::<Request>(line) else {
        let reply = Reply { version: version(line), response: Response::Unsupported };
        return Ok((encode_line(&reply)?, None));
    };
    let (response, timed) = match &request.kind {
        RequestKind::Pod(key) => match lookup.pod(key).await {
            LookupResult::Found(pod) => {
                return Ok((found_line(&request, &pod.facts_json), Some(AddResult::Found)));
            }
            LookupResult::Unknown => (Response::Unknown, Some(AddResult::Unknown)),
            LookupResult::Failed => (Response::Unknown, Some(AddResult::Failed)),
        },
        RequestKind::Deleted(key) => {
            lookup.deleted(key);
            (Response::Noted, None)
        }
    };
    Ok((encode_line(&Reply::to(&request, response))?, timed))
}

/// The version of the reply to what cannot be read: what can be told of it, else the lowest.
fn version(line: &[u8]) -> u32 {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    decode_line::<Versioned>(line).map_or(0, |request| request.version.min(VERSION))
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
