// SPDX-License-Identifier: Apache-2.0
//! Which requests, streams and connections a fault meets: by what is asked, by number and by time.

use std::time::Duration;

use cluster::{Asked, Effect, Fault, Verb};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

struct Rule {
    number: u64,
    fault: Fault,
    added: Instant,
    hits: u32,
    /// Ends with the rule.
    gone: watch::Sender<()>,
}

impl Rule {
    /// True if a request is hit, which counts.
    fn strikes(&mut self, asked: &Asked) -> bool {
        let fault = &self.fault;
        let spent = fault.times.is_some_and(|times| self.hits >= times);
        let in_time = fault.lasts.is_none_or(|lasts| self.added.elapsed() < lasts);
        if spent || !in_time || !meant(fault, asked) {
            return false;
        }
        self.hits += 1;
        true
    }
}

fn meant(fault: &Fault, asked: &Asked) -> bool {
    let fits = |only: &Option<String>, is: Option<&String>| only.is_none() || only.as_ref() == is;
    let is_verb = |only| only == asked.verb || only == Verb::List && asked.initial.is_some();
    fault.verb.is_none_or(is_verb)
        && asked.path.starts_with(&fault.path)
        && fits(&fault.resource, asked.resource.as_ref())
        && fits(&fault.name, asked.name.as_ref())
        && fits(&fault.user, Some(&asked.user))
        && fits(&fault.pod, asked.pod.as_ref())
}

#[derive(Default)]
struct All {
    last: u64,
    rules: Vec<Rule>,
    resets_connections: bool,
}

/// The faults of a front.
pub(crate) struct Rules {
    all: Mutex<All>,
    changed: watch::Sender<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { all: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock()
    }

    /// Changes the rules, and wakes their waiters.
    fn change(&self, change: impl FnOnce(&mut All)) {
        change(&mut self.lock());
        self.changed.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.change(|all| {
            all.last += 1;
            let (number, added, gone) = (all.last, Instant::now(), watch::Sender::new(()));
            all.rules.push(Rule { number, fault, added, hits: 0, gone });
        });
    }

    pub(crate) fn clear(&self) {
        self.change(|all| {
            all.rules.clear();
            all.resets_connections = false;
        });
    }

    pub(crate) fn reset_connections(&self) {
        self.change(|all| all.resets_connections = true);
    }

    /// Changes with every fault that is added or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// True if new connections are reset.
    pub(crate) fn resets_connections(&self) -> bool {
        self.lock().resets_connections
    }

    /// Counts a request against the rules: the holds that it has to wait for, and what ends it.
    pub(crate) fn meet(&self, asked: &Asked) -> (Vec<Hold>, Option<Effect>) {
        let mut holds = Vec::new();
        for rule in &mut self.lock().rules {
            if rule.fault.effect.is_of_streams() || !rule.strikes(asked) {
                continue;
            }
            match rule.fault.effect {
                Effect::Hold(limit) => holds.push(Hold { limit, gone: rule.gone.subscribe() }),
                effect => return (holds, Some(effect)),
            }
        }
        (holds, None)
    }

    /// Number and effect of the fault that meets the stream of a watch that has carried `sent` events. A silence that it is in goes on without being
    /// counted again.
    pub(crate) fn on_stream(&self, asked: &Asked, sent: u64, silenced: Option<u64>) -> Option<(u64, Effect)> {
        for rule in &mut self.lock().rules {
            let waits = matches!(rule.fault.effect, Effect::Cut { after } if sent < after);
            if !rule.fault.effect.is_of_streams() || waits {
                continue;
            }
            if silenced == Some(rule.number) || rule.strikes(asked) {
                return Some((rule.number, rule.fault.effect));
            }
        }
        None
    }
}

/// Delay imposed by a fault.
pub(crate) struct Hold {
    limit: Option<Duration>,
    gone: watch::Receiver<()>,
}

impl Hold {
    pub(crate) async fn wait(mut self) {
        // Nothing is ever sent: it is an error, once the fault is gone.
        let gone = self.gone.changed();
        match self.limit {
            Some(limit) => drop(tokio::time::timeout(limit, gone).await),
            None => drop(gone.await),
        }
    }
}
