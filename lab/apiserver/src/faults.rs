// SPDX-License-Identifier: Apache-2.0
//! Faults that a feature asks for: which requests they meet, and what they do to them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;

use crate::route::Verb;

/// What is done to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is answered with this code and a `Status` object.
    Answer {
        /// The HTTP code.
        code: StatusCode,
        /// Seconds of the `Retry-After` header.
        retry_after: Option<u32>,
    },
    /// It is held until the fault is released or removed, at most for this long; then it goes on.
    Hold(Option<Duration>),
    /// The connection is closed without an answer; in process, the call fails.
    Drop,
    /// It is answered 200 with a body that is not JSON.
    Garbage,
    /// It is carried out, but its answer breaks off in the middle of the body.
    Truncate,
}

impl Effect {
    /// An answer without `Retry-After`.
    #[must_use]
    pub fn answer(code: StatusCode) -> Self {
        Self::Answer { code, retry_after: None }
    }
}

/// A rule: which requests, how many of them, and what is done.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Only this verb.
    pub verb: Option<Verb>,
    /// Only paths that begin so; empty for all.
    pub path: String,
    /// Only this user (`system:admin`, `system:serviceaccount:NAMESPACE:NAME`, `system:anonymous`).
    pub user: Option<String>,
    /// Only the first so many requests that match; then the rule is spent.
    pub times: Option<u32>,
    /// What is done.
    pub effect: Effect,
}

impl Fault {
    /// A fault for every request of a verb whose path begins with `path`.
    #[must_use]
    pub fn on(verb: Verb, path: &str, effect: Effect) -> Self {
        Self { verb: Some(verb), path: path.to_owned(), user: None, times: None, effect }
    }

    /// The same for the first `times` requests only.
    #[must_use]
    pub fn first(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }
}

/// A fault that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultId(u64);

struct Rule {
    id: FaultId,
    fault: Fault,
    hits: u32,
    released: watch::Sender<bool>,
}

/// The faults of one API server. A request meets every hold that matches, in the order in which they were added, until a
/// rule that is not a hold decides its fate.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<(u64, Vec<Rule>)>>);

impl fmt::Debug for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.lock().1.iter().map(|rule| &rule.fault)).finish()
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Rule>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule.
    #[expect(clippy::must_use_candidate, reason = "most faults stay until the end of the scenario")]
    pub fn add(&self, fault: Fault) -> FaultId {
        let mut rules = self.lock();
        rules.0 += 1;
        let id = FaultId(rules.0);
        rules.1.push(Rule { id, fault, hits: 0, released: watch::Sender::new(false) });
        id
    }

    /// Lets requests go that a rule holds, and holds no more.
    pub fn release(&self, id: FaultId) {
        for rule in self.lock().1.iter().filter(|rule| rule.id == id) {
            rule.released.send_replace(true);
        }
    }

    /// Removes a rule; requests that it holds go on.
    pub fn remove(&self, id: FaultId) {
        self.lock().1.retain(|rule| rule.id != id);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().1.clear();
    }

    /// How many requests a rule has met.
    #[must_use]
    pub fn hits(&self, id: FaultId) -> u32 {
        self.lock().1.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.hits)
    }

    /// Counts a request against the rules: the holds that it has to wait for, and what ends it.
    pub(crate) fn meet(&self, verb: Verb, path: &str, user: &str) -> (Vec<Hold>, Option<Effect>) {
        let mut holds = Vec::new();
        for rule in &mut self.lock().1 {
            let Rule { fault, hits, .. } = rule;
            let spent = fault.times.is_some_and(|times| *hits >= times);
            let verb_fits = fault.verb.is_none_or(|only| only == verb);
            let user_fits = fault.user.as_ref().is_none_or(|only| only == user);
            if spent || !verb_fits || !user_fits || !path.starts_with(&fault.path) {
                continue;
            }
            *hits += 1;
            match fault.effect {
                Effect::Hold(limit) => holds.push(Hold { limit, released: rule.released.subscribe() }),
                effect => return (holds, Some(effect)),
            }
        }
        (holds, None)
    }
}

/// A wait that a rule imposes.
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
