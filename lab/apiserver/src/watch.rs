// SPDX-License-Identifier: Apache-2.0
//! Watches: the changes after a resource version as lines of JSON, until a time limit. A watcher reads the store's history
//! at its own pace, so none can miss an event: one that is too slow is told that its resource version has expired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::operate::Call;
use crate::selector::Selector;
use crate::server::Shared;
use crate::store::{Action, Change, Collection};

/// The real server picks between 30 and 60 minutes when a watcher names no limit.
const DEFAULT_LIMIT: u64 = 1800;

struct Watch {
    shared: Arc<Shared>,
    collection: Collection,
    selector: Selector,
    /// Everything up to here has been sent.
    cursor: u64,
    /// Lines that go first.
    first: Vec<u8>,
    changed: watch::Receiver<u64>,
    ends: Instant,
    /// When the next bookmark is due, for those who want them.
    bookmark: Option<Instant>,
    ended: bool,
}

/// The body of a watch's answer.
pub(crate) fn watch(
    shared: &Arc<Shared>,
    collection: &Collection,
    call: &Call,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
    let selector = call.selector(collection)?;
    let asked = call.query.number("resourceVersion")?.filter(|asked| *asked != 0);
    let initial = call.query.is_true("sendInitialEvents");
    let limit = call.query.number("timeoutSeconds")?.filter(|limit| *limit != 0).unwrap_or(DEFAULT_LIMIT);
    let bookmarks = call.query.is_true("allowWatchBookmarks");
    let now = Instant::now();
    let mut watch = Watch {
        shared: Arc::clone(shared),
        collection: collection.clone(),
        selector,
        cursor: asked.unwrap_or(0),
        first: Vec::new(),
        changed: shared.revisions(),
        ends: now + Duration::from_secs(limit),
        bookmark: bookmarks.then(|| now + shared.bookmark_every()),
        ended: false,
    };
    if initial || asked.is_none() {
        watch.snapshot();
    }
    if initial && bookmarks {
        watch.first.extend(watch.bookmark_line(json!({"k8s.io/initial-events-end": "true"})));
    }
    let lines =
        futures::stream::unfold(watch, |mut watch| async { watch.next().await.map(|lines| (lines, watch)) });
    Ok(lines)
}

impl Watch {
    /// Starts with what is there now.
    fn snapshot(&mut self) {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        self.cursor = state.store.revision();
        for (_, object) in state.store.list(&self.collection, &self.selector) {
            self.first.extend(line(Action::Added.name(), object));
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first).into());
        }
        while !self.ended {
            self.changed.borrow_and_update();
            let lines = self.gather();
            if !lines.is_empty() {
                return Some(lines.into());
            }
            let wake = self.bookmark.map_or(self.ends, |due| due.min(self.ends));
            match tokio::time::timeout_at(wake, self.changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => {
                    self.ended = Instant::now() >= self.ends;
                    if self.bookmark.is_some() {
                        self.bookmark = Some(Instant::now() + self.shared.bookmark_every());
                        return Some(self.bookmark_line(Value::Null).into());
                    }
                }
            }
        }
        None
    }

    /// What has happened since the cursor, as lines; an expired cursor gives an error event and the end.
    fn gather(&mut self) -> Vec<u8> {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        let mut lines = Vec::new();
        match state.store.since(self.cursor) {
            Ok(changes) => {
                for change in changes {
                    lines.extend(
                        change
                            .seen_by(&self.collection, &self.selector)
                            .map(|seen| event(change, seen))
                            .unwrap_or_default(),
                    );
                }
                self.cursor = state.store.revision();
            }
            Err(error) => {
                self.ended = true;
                lines = line("ERROR", &error.status());
            }
        }
        lines
    }

    fn bookmark_line(&self, annotations: Value) -> Vec<u8> {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let kind = self.collection.kind;
        line("BOOKMARK", &json!({"kind": kind.name, "apiVersion": kind.api_version(), "metadata": metadata}))
    }
}

/// An object that only ceases to match is shown as it was when it still matched, as the real server does.
fn event(change: &Change, seen: Action) -> Vec<u8> {
    match &change.previous {
        Some(previous) if seen == Action::Deleted && change.action != Action::Deleted => {
            let mut object = (**previous).clone();
            object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
            line(seen.name(), &object)
        }
        _ => line(seen.name(), &change.object),
    }
}

fn line(kind: &str, object: &Value) -> Vec<u8> {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into_bytes()
}
