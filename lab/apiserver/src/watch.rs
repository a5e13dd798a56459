// SPDX-License-Identifier: Apache-2.0
//! Watches: the changes after a resource version as lines of JSON, until a time limit. A watcher reads the store's history
//! at its own pace, so none can miss an event: one that is too slow is told that its resource version has expired.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{Lines, encoded};
use crate::call::Call;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::route::number;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Action, Change, Collection};
use crate::table::{Form, metadata_of, table};

/// The real server picks between 30 and 60 minutes when a watcher names no limit.
const DEFAULT_LIMIT: u64 = 1800;

struct Watch {
    shared: Arc<Shared>,
    collection: Collection,
    selector: Selector,
    /// Sent up to here.
    cursor: u64,
    /// Lines that are due.
    first: VecDeque<Vec<u8>>,
    changed: watch::Receiver<u64>,
    ends: Instant,
    /// Time of the next bookmark, if requested.
    bookmark: Option<Instant>,
    ended: bool,
    /// Restarts of the server when it was opened.
    restarts: u64,
    sheet: Sheet,
}

/// Body of a watch's response.
pub(crate) fn watch(shared: &Arc<Shared>, collection: &Collection, call: &Call) -> Result<Lines, ApiError> {
    let selector = call.selector(collection)?;
    if shared.lock().gates.refuses_streamed_list(call.verb, &call.query) {
        let refusal = line("ERROR", &ApiError::NoWatchProgress.status());
        return Ok(futures::stream::iter([refusal.into()]).boxed());
    }
    let malformed = |error: ApiError| match error {
        ApiError::BadRequest(why) => ApiError::Plain(why.replacen("invalid resource version: ", "", 1)),
        other => other,
    };
    let asked = number(&call.query, "resourceVersion").map_err(malformed)?.filter(|asked| *asked != 0);
    let initial = call.query.is_true("sendInitialEvents");
    let limit = number(&call.query, "timeoutSeconds")?.filter(|limit| *limit != 0).unwrap_or(DEFAULT_LIMIT);
    let bookmarks = call.query.is_true("allowWatchBookmarks");
    let now = Instant::now();
    let mut watch = Watch {
        shared: Arc::clone(shared),
        collection: collection.clone(),
        selector,
        cursor: asked.unwrap_or(0),
        first: VecDeque::new(),
        changed: shared.revisions(),
        ends: now + Duration::from_secs(limit),
        bookmark: bookmarks.then(|| now + shared.bookmark_every()),
        ended: false,
        restarts: shared.restarts(),
        sheet: Sheet { kind: collection.kind, form: call.form, has_columns: false },
    };
    let newest = shared.lock().store.revision();
    if initial && watch.cursor > newest {
        let refusal = ApiError::TooLargeVersion { asked: watch.cursor, current: newest };
        return Ok(futures::stream::iter([line("ERROR", &refusal.status()).into()]).boxed());
    }
    if initial || asked.is_none() && call.query.get("sendInitialEvents").is_none() {
        watch.snapshot();
    } else if asked.is_none() {
        watch.cursor = newest;
    }
    if initial && bookmarks {
        let end = watch.bookmark_line(json!({"k8s.io/initial-events-end": "true"}));
        watch.first.push_back(end);
    }
    Ok(futures::stream::unfold(watch, |mut watch| async { watch.next().await.map(|line| (line, watch)) })
        .boxed())
}

impl Watch {
    /// Begins with the present objects.
    fn snapshot(&mut self) {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        self.cursor = state.store.revision();
        for (_, object) in state.store.list(&self.collection, &self.selector) {
            self.first.push_back(self.sheet.line(Action::Added.name(), object, shared.now()));
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            self.changed.borrow_and_update();
            if self.restarts != self.shared.restarts() {
                return None;
            }
            if let Some(line) = self.due() {
                return Some(line.into());
            }
            if let Some(bookmark) = self.wait().await? {
                return Some(bookmark.into());
            }
        }
        None
    }

    /// Waits until something may have happened, or a bookmark is due. `None` if the server is gone.
    async fn wait(&mut self) -> Option<Option<Vec<u8>>> {
        let wake = self.bookmark.map_or(self.ends, |due| due.min(self.ends));
        tokio::select! {
            moved = self.changed.changed() => moved.ok().map(|()| None),
            () = tokio::time::sleep_until(wake) => {
                self.ended = Instant::now() >= self.ends;
                // Not even a bookmark comes of a version of the future (kubernetes#107457).
                let marked = self.bookmark.is_some() && self.cursor <= self.shared.lock().store.revision();
                self.bookmark = self.bookmark.map(|_| Instant::now() + self.shared.bookmark_every());
                Some(marked.then(|| self.bookmark_line(Value::Null)))
            }
        }
    }

    /// Next line that can be sent now.
    fn due(&mut self) -> Option<Vec<u8>> {
        if self.first.is_empty() {
            self.gather();
        }
        self.first.pop_front()
    }

    /// Changes since the cursor, as lines; an expired cursor gives an error event and the end.
    fn gather(&mut self) {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        if self.cursor > state.store.revision() {
            // A version of the future is waited for.
            return;
        }
        match state.store.since(self.cursor) {
            Ok(changes) => {
                for change in changes {
                    if let Some(seen) = change.seen_by(&self.collection, &self.selector) {
                        let object = event(change, seen);
                        self.first.push_back(self.sheet.line(seen.name(), &object, shared.now()));
                    }
                }
                self.cursor = state.store.revision();
            }
            Err(error) => {
                self.ended = true;
                self.first.push_back(line("ERROR", &error.status()));
            }
        }
    }

    fn bookmark_line(&self, annotations: Value) -> Vec<u8> {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let kind = self.collection.kind;
        line("BOOKMARK", &json!({"kind": kind.name, "apiVersion": kind.api_version(), "metadata": metadata}))
    }
}

/// Form of the objects of a watch.
struct Sheet {
    kind: &'static Kind,
    form: Form,
    /// A table's columns are sent once.
    has_columns: bool,
}

impl Sheet {
    fn line(&mut self, event: &str, object: &Value, now: Timestamp) -> Vec<u8> {
        let include = match self.form {
            Form::Object => return line(event, object),
            Form::Metadata => return line(event, &metadata_of(object)),
            Form::Table(include) => include,
        };
        let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        let columns = !std::mem::replace(&mut self.has_columns, true);
        line(event, &table(self.kind, [object], &metadata, include, now, columns))
    }
}

/// An object that only ceases to match is shown as it was when it still matched, as the real server does.
fn event(change: &Change, seen: Action) -> Cow<'_, Value> {
    match &change.previous {
        Some(previous) if seen == Action::Deleted && change.action != Action::Deleted => {
            let mut object = (**previous).clone();
            object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
            Cow::Owned(object)
        }
        _ => Cow::Borrowed(&*change.object),
    }
}

fn line(kind: &str, object: &Value) -> Vec<u8> {
    let mut bytes = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    bytes.extend(encoded(object));
    bytes.extend(b"}\n");
    bytes
}
