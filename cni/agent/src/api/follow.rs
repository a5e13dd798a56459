// SPDX-License-Identifier: Apache-2.0
//! Follows a part of a collection: a list, then a watch from there on, for as long as the agent lives; or both as one request, where the server
//! streams lists. One step at a time, so there is never more than one list or watch of it. What comes next is decided in `course`.

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client::{Client, REQUEST_LIMIT, within};
use super::course::{Dice, FollowCourse, FollowStep, Next, StepOutcome};
use super::error::ApiError;
use super::list::{Cutter, Frame};
use super::resource::{Freshness, Resource};
use super::watch::{EventType, Lines, WatchEvent};
use crate::metrics::RestartReason;
use crate::time::pause;

/// Deadline of a list, all its pages together, or of a watch's initial events.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// A watch that tells nothing for so long is dead: servers send a bookmark every minute or so, even if nothing happens.
const STALL_LIMIT: Duration = Duration::from_secs(150);

/// Tolerance of the end of a watch: `timeoutSeconds` is a whole number.
const ROUNDING: Duration = Duration::from_secs(2);

/// Bounds of `timeoutSeconds` of a watch. Long, since each is a request; not the same for all agents.
const WATCH_TIME: [Duration; 2] = [Duration::from_secs(20 * 60), Duration::from_secs(30 * 60)];

/// Event of a followed collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// Result of a list: replaces everything.
    All(Vec<T>),
    Set(T),
    Removed(T),
    /// Bookmark or other proof of life: nothing changed up to now.
    Alive,
    /// The watch is lost, and why: what is known goes stale.
    Lost(Lost),
}

/// Event of a collection that has one object at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum One<T> {
    /// The object, or that there is none.
    Now(Option<T>),
    /// See [`Change::Alive`].
    Alive,
    /// See [`Change::Lost`].
    Lost(Lost),
}

impl<T> Change<T> {
    /// The event, where the collection has one object at most.
    #[must_use]
    pub fn one(self) -> One<T> {
        match self {
            Self::All(all) => One::Now(all.into_iter().next()),
            Self::Set(object) => One::Now(Some(object)),
            Self::Removed(_) => One::Now(None),
            Self::Alive => One::Alive,
            Self::Lost(lost) => One::Lost(lost),
        }
    }
}

/// Reason of a lost watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Kind of reason.
    pub reason: RestartReason,
    pub error: Option<ApiError>,
    /// The server closed the watch in good order, but before the time that was requested: it shuts down, or a proxy limits connections.
    pub early: bool,
}

/// Part of a collection that is followed.
#[derive(Debug, Clone)]
pub struct Following {
    client: Client,
    resource: Resource,
    /// Differs between agents: jitter follows from it.
    seed: u64,
}

/// Initial events of a watch, by namespace and name.
type Initial<T> = BTreeMap<(String, String), T>;

impl Following {
    #[must_use]
    pub fn new(client: Client, resource: Resource) -> Self {
        Self { client, resource, seed: RandomState::new().build_hasher().finish() }
    }

    /// Sends every change to `sink` until cancelled.
    pub async fn run<T: DeserializeOwned>(self, mut sink: impl FnMut(Change<T>), cancel: &CancellationToken) {
        cancel.run_until_cancelled(self.follow(&mut sink)).await;
    }

    async fn follow<T: DeserializeOwned>(&self, sink: &mut impl FnMut(Change<T>)) {
        let start = Instant::now();
        let mut course = FollowCourse::new(self.seed);
        let mut dice = Dice::new(self.seed.wrapping_add(1));
        let mut next = course.first();
        loop {
            pause(next.after).await;
            course.begin(start.elapsed());
            let began = Instant::now();
            let time = dice.between(WATCH_TIME[0], WATCH_TIME[1]);
            let outcome = match &next.step {
                FollowStep::List(freshness) => self.list(freshness, sink).await,
                FollowStep::Stream(freshness) => {
                    let request = self.resource.stream(freshness, time);
                    self.watch(request, Some(BTreeMap::new()), &mut course, sink).await
                }
                FollowStep::Watch { from } => {
                    self.watch(self.resource.watch(from, time), None, &mut course, sink).await
                }
            };
            let is_lost = !course.is_without_streams(&outcome);
            next = course.decide(&outcome, start.elapsed());
            if is_lost {
                let early = outcome == StepOutcome::Ended && began.elapsed() + ROUNDING < time;
                self.tell(&outcome, &next, early, sink);
            }
        }
    }

    fn tell<T>(&self, outcome: &StepOutcome, next: &Next, early: bool, sink: &mut impl FnMut(Change<T>)) {
        let Some(reason) = outcome.reason() else { return };
        let (resource, again_in) = (self.resource.name, next.after);
        let error = match outcome {
            StepOutcome::Failed(error) => {
                tracing::warn!(target: "cni-agent", resource, reason = reason.name(), ?again_in, "{error}");
                Some(error.clone())
            }
            _ => {
                tracing::debug!(target: "cni-agent", resource, reason = reason.name(), ?again_in, "watch is renewed");
                None
            }
        };
        sink(Change::Lost(Lost { reason, error, early }));
    }

    async fn list<T: DeserializeOwned>(
        &self,
        freshness: &Freshness,
        sink: &mut impl FnMut(Change<T>),
    ) -> StepOutcome {
        match within(LIST_LIMIT, self.pages(freshness)).await {
            Ok((all, version)) => {
                self.tell_all(all, &version, sink);
                StepOutcome::Listed { version }
            }
            Err(error) => StepOutcome::Failed(error),
        }
    }

    fn tell_all<T>(&self, all: Vec<T>, version: &str, sink: &mut impl FnMut(Change<T>)) {
        tracing::info!(target: "cni-agent", resource = self.resource.name, count = all.len(), version, "listed");
        sink(Change::All(all));
    }

    async fn pages<T: DeserializeOwned>(&self, freshness: &Freshness) -> Result<(Vec<T>, String), ApiError> {
        let mut all = Vec::new();
        let mut from = None;
        loop {
            let metadata = self.page(freshness, from.as_deref(), &mut all).await?.metadata;
            if metadata.resource_version.is_empty() {
                return Err(ApiError::Malformed("a list without a version".to_owned()));
            }
            if metadata.next.is_empty() {
                return Ok((all, metadata.resource_version));
            }
            from = Some(metadata.next);
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        freshness: &Freshness,
        from: Option<&str>,
        all: &mut Vec<T>,
    ) -> Result<Frame, ApiError> {
        let malformed = |error: super::list::ListError| ApiError::Malformed(error.to_string());
        let answer = self.client.open(self.resource.list(freshness, from)?).await?;
        let mut body = answer.into_body();
        let mut cutter = Cutter::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ApiError::of_client(&error))?;
            let Ok(piece) = frame.into_data() else { continue };
            cutter.take(&piece, |item| all.extend(self.read(item))).map_err(malformed)?;
            // A thousand pods take a while to read: readiness and the sockets are on this thread, too.
            tokio::task::yield_now().await;
        }
        cutter.finish().map_err(malformed)
    }

    /// A watch; with `initial` one that begins with everything that there is.
    async fn watch<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, ApiError>,
        initial: Option<Initial<T>>,
        course: &mut FollowCourse,
        sink: &mut impl FnMut(Change<T>),
    ) -> StepOutcome {
        match self.events(request, initial, course, sink).await {
            Ok(outcome) => outcome,
            Err(error) => StepOutcome::Failed(error),
        }
    }

    async fn events<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, ApiError>,
        mut initial: Option<Initial<T>>,
        course: &mut FollowCourse,
        sink: &mut impl FnMut(Change<T>),
    ) -> Result<StepOutcome, ApiError> {
        let answer = within(REQUEST_LIMIT, self.client.open(request?)).await?;
        if initial.is_none() {
            sink(Change::Alive);
        }
        let (mut body, mut lines) = (answer.into_body(), Lines::default());
        let start = Instant::now();
        let mut heard = start;
        loop {
            while let Some(line) = lines.next() {
                // Only whole events count: bytes that drip in are no sign of life.
                heard = Instant::now();
                let event = WatchEvent::parse(&line)?;
                match &mut initial {
                    Some(all) if event.ends_initial => {
                        let all = std::mem::take(all).into_values().collect();
                        self.tell_all(all, &event.version, sink);
                        course.list(event.version);
                        initial = None;
                    }
                    Some(all) => self.gather(event, all),
                    None => {
                        self.hear(&event, sink);
                        course.reach(event.version);
                    }
                }
            }
            let mut limit = STALL_LIMIT.saturating_sub(heard.elapsed());
            if initial.is_some() {
                limit = limit.min(LIST_LIMIT.saturating_sub(start.elapsed()));
            }
            let Ok(frame) = tokio::time::timeout(limit, body.frame()).await else {
                return Ok(StepOutcome::Stalled);
            };
            match frame {
                Some(Ok(frame)) => lines.take(frame.data_ref().map_or(&[], |piece| piece))?,
                None if !lines.is_cut() => return Ok(StepOutcome::Ended),
                None | Some(Err(_)) => return Ok(StepOutcome::Broken),
            }
        }
    }

    /// Takes in one of the initial events. What changes meanwhile may be among them.
    fn gather<T: DeserializeOwned>(&self, event: WatchEvent<'_>, all: &mut Initial<T>) {
        match event.kind {
            EventType::Set => {
                if let Some(object) = self.read(event.object.as_bytes()) {
                    all.insert(event.key, object);
                }
            }
            EventType::Removed => drop(all.remove(&event.key)),
            EventType::Bookmark => {}
        }
    }

    fn hear<T: DeserializeOwned>(&self, event: &WatchEvent<'_>, sink: &mut impl FnMut(Change<T>)) {
        match event.kind {
            EventType::Bookmark => sink(Change::Alive),
            EventType::Set => {
                self.read(event.object.as_bytes()).into_iter().for_each(|object| sink(Change::Set(object)))
            }
            EventType::Removed => {
                self.read(event.object.as_bytes())
                    .into_iter()
                    .for_each(|object| sink(Change::Removed(object)));
            }
        }
    }

    /// Reads an object. One that cannot be read is left out: to fail because of it would be to fail for ever.
    fn read<T: DeserializeOwned>(&self, json: &[u8]) -> Option<T> {
        match serde_json::from_slice(json) {
            Ok(object) => Some(object),
            Err(error) => {
                let resource = self.resource.name;
                tracing::warn!(target: "cni-agent", resource, %error, "an object cannot be read and is left out");
                None
            }
        }
    }
}
