// SPDX-License-Identifier: Apache-2.0
//! Faults that a feature asks for: which requests they meet, and what they do to them. `request_info` is what they match, `connect` is about
//! connections that have not asked for anything yet.

mod connect;
mod request_info;
mod rule;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;

pub use self::connect::Connecting;
pub(crate) use self::request_info::RequestInfo;
pub use self::rule::{Fault, Odds};
use crate::ids::Ids;

/// Effect on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Answered with this code and a `Status` object.
    Answer {
        code: StatusCode,
        /// Seconds of the `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// It is held until the fault is released or removed, at most for this long; then it goes on.
    Hold(Option<Duration>),
    /// The connection is closed without an answer; in process, the call fails.
    Drop,
    /// Answered 200 with a body that is not JSON.
    Garbage,
    /// It is carried out, but its answer breaks off in the middle of the body.
    Truncate,
    /// The response's body trickles.
    Drip {
        /// Bytes at a time.
        bytes: usize,
        /// Pause before each.
        every: Duration,
    },
    /// It is served from what was so many changes ago: a read gives the objects of then, a watch repeats what came since.
    Past(u64),
    /// A watch, open or new, stays open and tells nothing, no bookmark either, as long as the fault is there.
    Silence,
    /// A watch, open or new, gets an ERROR event with this code and ends.
    ErrorEvent(StatusCode),
    /// The connection of a watch, open or new, breaks once it has carried so many events.
    Cut {
        /// Events and bookmarks that still pass.
        after: u64,
    },
}

impl Effect {
    /// Response without `Retry-After`.
    #[must_use]
    pub fn answer(code: StatusCode) -> Self {
        Self::Answer { code, retry_after: None }
    }

    /// True if it applies to the stream of a watch, at any time of its life, and not to a request.
    fn is_of_streams(self) -> bool {
        matches!(self, Self::Silence | Self::ErrorEvent(_) | Self::Cut { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultId(u64);

struct Rule {
    id: FaultId,
    fault: Fault,
    /// Matching requests, those before the fault took effect included.
    seen: u32,
    hits: u32,
    dice: Ids,
    released: watch::Sender<bool>,
}

#[derive(Default)]
struct Rules {
    last: u64,
    all: Vec<Rule>,
    connecting: Option<connect::ConnectRule>,
}

/// The faults of one API server. A request meets every hold that matches, in the order in which they were added, until a
/// rule that is not a hold decides its fate.
#[derive(Clone)]
pub struct Faults {
    rules: Arc<Mutex<Rules>>,
    changed: watch::Sender<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rules: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.lock().all.iter().map(|rule| &rule.fault)).finish()
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the rules, and wakes their waiters.
    fn change<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_modify(|changes| *changes += 1);
        result
    }

    #[expect(clippy::must_use_candidate, reason = "most faults stay until the end of the scenario")]
    pub fn add(&self, fault: Fault) -> FaultId {
        self.change(|rules| {
            rules.last += 1;
            let id = FaultId(rules.last);
            let dice = Ids::new(fault.odds.map_or(0, |odds| odds.seed));
            rules.all.push(Rule { id, fault, seen: 0, hits: 0, dice, released: watch::Sender::new(false) });
            id
        })
    }

    /// Releases requests that a rule holds, and holds no more.
    pub fn release(&self, id: FaultId) {
        for rule in self.lock().all.iter().filter(|rule| rule.id == id) {
            rule.released.send_replace(true);
        }
    }

    /// Removes a rule; requests that it holds go on.
    pub fn remove(&self, id: FaultId) {
        self.change(|rules| rules.all.retain(|rule| rule.id != id));
    }

    pub fn clear(&self) {
        self.change(|rules| {
            rules.all.clear();
            rules.connecting = None;
        });
    }

    /// Number of requests that matched a rule.
    #[must_use]
    pub fn hits(&self, id: FaultId) -> u32 {
        self.lock().all.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.hits)
    }

    /// Changes with every rule that is added or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Counts a request against the rules: the holds that it has to wait for, and what ends it.
    pub(crate) fn meet(&self, asked: &RequestInfo, now: Timestamp) -> (Vec<Hold>, Option<Effect>) {
        let mut holds = Vec::new();
        for rule in &mut self.lock().all {
            if rule.fault.effect.is_of_streams() || !rule.strikes(asked, now) {
                continue;
            }
            match rule.fault.effect {
                Effect::Hold(limit) => holds.push(Hold { limit, released: rule.released.subscribe() }),
                effect => return (holds, Some(effect)),
            }
        }
        (holds, None)
    }

    /// Effect on the stream of a watch that has carried `sent` events. A silence that it is in goes on without being counted again.
    pub(crate) fn on_stream(
        &self,
        asked: &RequestInfo,
        sent: u64,
        silenced: Option<FaultId>,
        now: Timestamp,
    ) -> Option<(FaultId, Effect)> {
        for rule in &mut self.lock().all {
            let waits = matches!(rule.fault.effect, Effect::Cut { after } if sent < after);
            if !rule.fault.effect.is_of_streams() || waits {
                continue;
            }
            let goes_on = silenced == Some(rule.id);
            if goes_on || rule.strikes(asked, now) {
                return Some((rule.id, rule.fault.effect));
            }
        }
        None
    }

    /// Effect on the next `times` connections (`None`: all).
    pub fn connections(&self, effect: Connecting, times: Option<u32>) {
        self.change(|rules| rules.connecting = Some(connect::ConnectRule::new(effect, times)));
    }

    /// Effect on a new connection.
    pub(crate) fn connecting(&self) -> Option<Connecting> {
        self.lock().connecting.as_mut()?.strike()
    }
}

/// Delay imposed by a rule.
pub(crate) struct Hold {
    limit: Option<Duration>,
    released: watch::Receiver<bool>,
}

impl Hold {
    pub(crate) async fn wait(mut self) {
        // An error means that the rule is gone, which lets the request go on as well.
        let released = self.released.wait_for(|released| *released);
        match self.limit {
            Some(limit) => drop(tokio::time::timeout(limit, released).await),
            None => drop(released.await),
        }
    }
}
