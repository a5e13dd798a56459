// SPDX-License-Identifier: Apache-2.0
//! Which requests, streams and connections a fault meets: by what is asked, by number, by time and by chance.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use cluster::{Asked, Connecting, Effect, Fault, FaultId, Odds, Verb};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

struct Rule {
    id: FaultId,
    fault: Fault,
    added: Instant,
    /// Matching requests, those before the fault took effect included.
    seen: u32,
    hits: u32,
    released: watch::Sender<bool>,
}

impl Rule {
    /// True if a request is hit; a match is counted.
    fn strikes(&mut self, asked: &Asked) -> bool {
        let fault = &self.fault;
        let spent = fault.times.is_some_and(|times| self.hits >= times);
        let in_time = fault.during.as_ref().is_none_or(|during| during.contains(&self.added.elapsed()));
        if spent || !in_time || !meant(fault, asked) {
            return false;
        }
        self.seen += 1;
        if self.seen <= fault.skip || fault.odds.is_some_and(|odds| spares(odds, self.seen)) {
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

/// Throws the dice for the request of this number.
fn spares(odds: Odds, number: u32) -> bool {
    let mut dice = DefaultHasher::new();
    (odds.seed, number).hash(&mut dice);
    dice.finish() % 100 >= u64::from(odds.percent)
}

/// Fault of connections.
struct ConnectRule {
    effect: Connecting,
    left: Option<u32>,
}

impl ConnectRule {
    fn strike(&mut self) -> Option<Connecting> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        Some(self.effect)
    }
}

#[derive(Default)]
struct All {
    last: u64,
    rules: Vec<Rule>,
    connecting: Option<ConnectRule>,
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
    fn change<T>(&self, change: impl FnOnce(&mut All) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_modify(|changes| *changes += 1);
        result
    }

    pub(crate) fn add(&self, fault: Fault) -> FaultId {
        self.change(|all| {
            all.last += 1;
            let (id, added, released) = (FaultId(all.last), Instant::now(), watch::Sender::new(false));
            all.rules.push(Rule { id, fault, added, seen: 0, hits: 0, released });
            id
        })
    }

    pub(crate) fn release(&self, id: FaultId) {
        for rule in self.lock().rules.iter().filter(|rule| rule.id == id) {
            rule.released.send_replace(true);
        }
    }

    pub(crate) fn remove(&self, id: FaultId) {
        self.change(|all| all.rules.retain(|rule| rule.id != id));
    }

    pub(crate) fn clear(&self) {
        self.change(|all| {
            all.rules.clear();
            all.connecting = None;
        });
    }

    pub(crate) fn hits(&self, id: FaultId) -> u32 {
        self.lock().rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.hits)
    }

    pub(crate) fn connections(&self, effect: Connecting, times: Option<u32>) {
        self.change(|all| all.connecting = Some(ConnectRule { effect, left: times }));
    }

    /// Changes with every fault that is added or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Effect on a new connection.
    pub(crate) fn connecting(&self) -> Option<Connecting> {
        self.lock().connecting.as_mut()?.strike()
    }

    /// Counts a request against the rules: the holds that it has to wait for, and what ends it.
    pub(crate) fn meet(&self, asked: &Asked) -> (Vec<Hold>, Option<Effect>) {
        let mut holds = Vec::new();
        for rule in &mut self.lock().rules {
            if rule.fault.effect.is_of_streams() || !rule.strikes(asked) {
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
        asked: &Asked,
        sent: u64,
        silenced: Option<FaultId>,
    ) -> Option<(FaultId, Effect)> {
        for rule in &mut self.lock().rules {
            let waits = matches!(rule.fault.effect, Effect::Cut { after } if sent < after);
            if !rule.fault.effect.is_of_streams() || waits {
                continue;
            }
            if silenced == Some(rule.id) || rule.strikes(asked) {
                return Some((rule.id, rule.fault.effect));
            }
        }
        None
    }
}

/// Delay imposed by a fault.
pub(crate) struct Hold {
    limit: Option<Duration>,
    released: watch::Receiver<bool>,
}

impl Hold {
    pub(crate) async fn wait(mut self) {
        // An error means that the fault is gone, which lets the request go on as well.
        let released = self.released.wait_for(|released| *released);
        match self.limit {
            Some(limit) => drop(tokio::time::timeout(limit, released).await),
            None => drop(released.await),
        }
    }
}
