// SPDX-License-Identifier: Apache-2.0
//! The stream of a watch, line by line: what goes wrong with it while it is open, and how far its initial events have come.
//!
//! A silent stream is not read. What the server sends meanwhile waits in the buffers between, and comes when the silence ends.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cluster::{Actor, Asked, Chaos, Effect, FaultId, InitialEvents};
use futures::StreamExt as _;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use hyper::body::Frame;
use listen::{Body, BoxError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{self, Broken, status};
use crate::record::Record;
use crate::rules::Rules;

/// Annotation of the bookmark behind the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

struct Stream {
    upstream: BodyDataStream<Body>,
    /// Bytes that are no whole line yet.
    rest: BytesMut,
    asked: Asked,
    rules: Arc<Rules>,
    record: Arc<Record>,
    changes: watch::Receiver<u64>,
    /// Number of events and bookmarks that have passed.
    sent: u64,
    silenced: Option<FaultId>,
    chaos: Chaos,
    /// When the last bytes came.
    arrived: Instant,
    /// The next line has been late already.
    paced: bool,
    /// The last line that has passed ends the initial events.
    is_told: bool,
    ended: bool,
}

/// Body of a watch's answer, from the server's. `asked` has its number in the record.
pub(crate) fn stream(
    body: Body,
    asked: Asked,
    rules: &Arc<Rules>,
    record: &Arc<Record>,
    chaos: Chaos,
) -> Body {
    let stream = Stream {
        upstream: body.into_data_stream(),
        rest: BytesMut::new(),
        asked,
        changes: rules.changes(),
        rules: Arc::clone(rules),
        record: Arc::clone(record),
        chaos,
        arrived: Instant::now(),
        paced: false,
        sent: 0,
        silenced: None,
        is_told: false,
        ended: false,
    };
    let lines = futures::stream::unfold(stream, |mut stream| async {
        stream.next().await.map(|line| (line, stream))
    });
    StreamBody::new(lines.map(|line| line.map(Frame::data))).boxed_unsync()
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if std::mem::take(&mut self.is_told) {
            self.initial(InitialEvents::Told);
        }
        while !self.ended {
            self.changes.borrow_and_update();
            match self.rules.on_stream(&self.asked, self.sent, self.silenced) {
                Some((id, Effect::Silence)) => {
                    self.silenced = Some(id);
                    // An error means that the front is gone, and its connections with it.
                    self.changes.changed().await.ok()?;
                    continue;
                }
                Some((_, Effect::ErrorEvent(code))) => {
                    self.ended = true;
                    let event = json!({ "type": "ERROR", "object": status(code, None) });
                    return Some(Ok(format!("{event}\n").into()));
                }
                Some(_) => {
                    self.ended = true;
                    return Some(Err(Broken::Truncated.into()));
                }
                None => self.silenced = None,
            }
            if self.is_late().await {
                // Faults may have changed meanwhile.
                continue;
            }
            if let Some(line) = self.line() {
                self.paced = false;
                self.sent += 1;
                self.look(&line);
                return Some(Ok(line));
            }
            if let Some(last) = self.more().await {
                return last;
            }
        }
        None
    }

    /// Waits for bytes or for a change of the faults; at the stream's end, what is left of it.
    async fn more(&mut self) -> Option<Option<Result<Bytes, BoxError>>> {
        tokio::select! {
            moved = self.changes.changed() => moved.is_err().then_some(None),
            bytes = self.upstream.next() => match bytes {
                Some(Ok(bytes)) => {
                    self.arrived = Instant::now();
                    self.rest.extend_from_slice(&bytes);
                    None
                }
                end => {
                    self.ended = true;
                    let rest = self.rest.split().freeze();
                    Some(end.or_else(|| (!rest.is_empty()).then_some(Ok(rest))))
                }
            }
        }
    }

    /// Holds the next line back, once, if it is to be late.
    async fn is_late(&mut self) -> bool {
        if self.paced || !self.rest.contains(&b'\n') {
            return false;
        }
        self.paced = true;
        // Events are late side by side: one does not wait for the delays of those before it.
        let due = self.arrived + self.chaos.delay(Actor::WatchEvent);
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        answer::pause(left).await;
        true
    }

    fn line(&mut self) -> Option<Bytes> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        Some(self.rest.split_to(end + 1).freeze())
    }

    fn look(&mut self, line: &[u8]) {
        if self.asked.initial != Some(InitialEvents::Pending) {
            return;
        }
        match Event::of(line) {
            // The record says so when it has passed.
            Some(event) if event.ends_initial() => {
                self.asked.initial = Some(InitialEvents::Told);
                self.is_told = true;
            }
            Some(event) if event.kind == "ERROR" => self.initial(InitialEvents::Refused),
            _ => {}
        }
    }

    fn initial(&mut self, events: InitialEvents) {
        self.asked.initial = Some(events);
        self.record.initial(self.asked.order, events);
    }
}

/// What the front reads of an event.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: Option<Value>,
}

impl Event {
    fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    fn ends_initial(&self) -> bool {
        let annotations = self.object.metadata.annotations.as_ref();
        self.kind == "BOOKMARK" && annotations.is_some_and(|all| all[INITIAL_END] == "true")
    }
}
