// SPDX-License-Identifier: Apache-2.0
//! Aggregation of events. The first of its kind is written at once; those that follow only count, and the count is written
//! once in [`WINDOW`] at most. Told the time; writes nothing.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{About, EventReason, Note};

/// A count is written this often at most: a pod in a crash loop has a status update every few seconds.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// An occurrence after this long is a new event. API servers keep events for an hour.
pub(super) const FORGET: Duration = Duration::from_secs(3600);
/// Events in the aggregation cache. A node has 110 pods; beyond this the oldest begins anew.
pub(super) const MOST: usize = 1024;

/// Aggregated event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AggregatedEvent {
    /// Latest occurrence.
    pub(super) note: Note,
    pub(super) name: String,
    /// Occurrences so far.
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

/// Pending write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PendingWrite {
    /// POST of a new event.
    New(AggregatedEvent),
    /// PATCH of the count of an old one.
    Count(AggregatedEvent),
}

impl PendingWrite {
    pub(super) fn entry(&self) -> &AggregatedEvent {
        match self {
            Self::New(entry) | Self::Count(entry) => entry,
        }
    }
}

#[derive(Debug)]
struct Kept {
    entry: AggregatedEvent,
    written: Instant,
    heard: Instant,
    waits: bool,
}

/// Events that are one: those of the same reason about the same object, and of refused settings those of one, whose name the message begins with.
type Kind = (About, EventReason, Option<String>);

/// Aggregation cache.
#[derive(Debug, Default)]
pub(super) struct Aggregator(HashMap<Kind, Kept>);

impl Aggregator {
    /// Adds an occurrence at `now`, which is `wall` by the wall clock.
    pub(super) fn note(&mut self, note: Note, now: Instant, wall: Timestamp) -> Option<PendingWrite> {
        let setting = note.message.split_once('=').filter(|_| note.reason == EventReason::SettingRefused);
        let key = (note.about.clone(), note.reason, setting.map(|(name, _)| name.to_owned()));
        let known = self.0.get_mut(&key).filter(|kept| now - kept.heard < FORGET);
        let Some(kept) = known else {
            return Some(self.begin(key, note, now, wall));
        };
        kept.entry.count = kept.entry.count.saturating_add(1);
        // A clock that was set back does not make an event end before it began.
        kept.entry.last = kept.entry.last.max(wall);
        kept.entry.note = note;
        kept.heard = now;
        kept.waits = true;
        (now - kept.written >= WINDOW).then(|| kept.write(now))
    }

    fn begin(&mut self, key: Kind, note: Note, now: Instant, wall: Timestamp) -> PendingWrite {
        self.0.retain(|_, kept| now - kept.heard < FORGET);
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, kept)| kept.heard).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.0.remove(&key));
        }
        // As client-go names them: unique in a namespace, and recognisable. The reason tells two of one moment apart.
        let name = format!("{}.{:x}{:02x}", note.about.name(), wall.as_nanosecond(), note.reason as u8);
        let entry = AggregatedEvent { note, name, count: 1, first: wall, last: wall };
        self.0.insert(key, Kept { entry: entry.clone(), written: now, heard: now, waits: false });
        PendingWrite::New(entry)
    }

    /// When the next count is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter(|kept| kept.waits).map(|kept| kept.written + WINDOW).min()
    }

    /// Counts that are due.
    pub(super) fn flush(&mut self, now: Instant) -> Vec<PendingWrite> {
        let waiting = self.0.values_mut().filter(|kept| kept.waits && now - kept.written >= WINDOW);
        waiting.map(|kept| kept.write(now)).collect()
    }

    /// All pending counts, at the end.
    pub(super) fn rest(&mut self) -> Vec<PendingWrite> {
        let waiting = self.0.values_mut().filter(|kept| kept.waits);
        waiting.map(|kept| kept.write(kept.written)).collect()
    }
}

impl Kept {
    fn write(&mut self, now: Instant) -> PendingWrite {
        self.written = now;
        self.waits = false;
        PendingWrite::Count(self.entry.clone())
    }
}
