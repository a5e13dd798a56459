// SPDX-License-Identifier: Apache-2.0
//! The stream of a watch, line by line: what goes wrong with it while it is open, and how far its initial events have come.
//!
//! A silent stream is not read. What the server sends meanwhile waits in the buffers between, and comes when the silence ends.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cluster::{Actor, Asked, Chaos, Effect, InitialEvents};
use futures::StreamExt as _;
use http_body_util::{BodyDataStream, BodyExt as _, StreamBody};
use hyper::body::Frame;
use listen::{Arrivals, Body, BoxError};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{self, Broken, status};
use crate::rules::Rules;

/// Annotation of the bookmark behind the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

struct Stream {
    upstream: BodyDataStream<Body>,
    /// Bytes that are no whole line yet.
    rest: BytesMut,
    asked: Asked,
    rules: Arc<Rules>,
    record: Arc<Arrivals<Asked>>,
    changes: watch::Receiver<u64>,
    /// Number of events and bookmarks that have passed.
    sent: u64,
    /// Number of the fault that silences it.
    silenced: Option<u64>,
    chaos: Chaos,
    /// When each whole line of `rest` came.
    arrived: VecDeque<Instant>,
    /// The server's stream ended, perhaps with an error, while a line was held back.
    over: Option<Option<BoxError>>,
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
    record: &Arc<Arrivals<Asked>>,
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
        arrived: VecDeque::new(),
        over: None,
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
                Some((number, Effect::Silence)) => {
                    self.silenced = Some(number);
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
        if self.over.is_none() {
            tokio::select! {
                moved = self.changes.changed() => return moved.is_err().then_some(None),
                bytes = self.upstream.next() => self.take(bytes),
            }
        }
        let error = self.over.take()?;
        self.ended = true;
        let rest = self.rest.split().freeze();
        Some(error.map(Err).or_else(|| (!rest.is_empty()).then_some(Ok(rest))))
    }

    /// Keeps what the server sent.
    fn take(&mut self, bytes: Option<Result<Bytes, BoxError>>) {
        match bytes {
            Some(Ok(bytes)) => {
                let now = Instant::now();
                self.arrived.extend(bytes.iter().filter(|byte| **byte == b'\n').map(|_| now));
                self.rest.extend_from_slice(&bytes);
            }
            Some(Err(error)) => self.over = Some(Some(error)),
            None => self.over = Some(None),
        }
    }

    /// Holds the next line back, once, if it is to be late. The stream is read meanwhile: events are late side by side, and one does not wait for the
    /// delays of those before it.
    async fn is_late(&mut self) -> bool {
        let Some(arrived) = self.arrived.front().filter(|_| !self.paced).copied() else { return false };
        self.paced = true;
        let due = arrived + self.chaos.delay(Actor::WatchEvent);
        let mut held = false;
        while let left = due.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            held = true;
            let is_over = self.over.is_some();
            tokio::select! {
                () = answer::pause(left) => {}
                bytes = self.upstream.next(), if !is_over => self.take(bytes),
            }
        }
        held
    }

    fn line(&mut self) -> Option<Bytes> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        self.arrived.pop_front();
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
        self.record.edit(self.asked.order, |one| one.initial = Some(events));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster::Verb;

    use super::*;

    fn asked() -> Asked {
        Asked {
            order: 0,
            at: Duration::ZERO,
            verb: Verb::Watch,
            path: "/api/v1/pods".to_owned(),
            query: None,
            resource: Some("pods".to_owned()),
            namespace: None,
            name: None,
            user: String::new(),
            pod: None,
            code: Some(200),
            denied: None,
            initial: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_come_together_are_late_side_by_side() {
        let lines = (0..100).map(|number| Ok(Frame::data(Bytes::from(format!("{{\"number\":{number}}}\n")))));
        let body = StreamBody::new(futures::stream::iter(lines)).boxed_unsync();
        let (rules, record, began) = (Arc::default(), Arc::default(), Instant::now());
        let late = stream(body, asked(), &rules, &record, Chaos::new(1, "a"));
        let text = late.collect().await.unwrap().to_bytes();
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 100);
        let took = began.elapsed();
        // A timer of tokio's is late by a millisecond at most.
        let bound = Actor::WatchEvent.bound() + Duration::from_millis(1);
        assert!(!took.is_zero() && took <= bound, "{took:?}");
    }
}
