// SPDX-License-Identifier: Apache-2.0
//! Requests in the order of arrival, for assertions and for evidence. Bounded.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cluster::{Asked, Filter, InitialEvents};
use tokio::sync::watch;

/// Far more than any scenario causes. The oldest go: a scenario asserts on what it has just caused, and an order that is not 0 tells.
const LIMIT: usize = 100_000;

#[derive(Default)]
struct Kept {
    all: VecDeque<Asked>,
    next: u64,
}

pub(crate) struct Record {
    kept: Mutex<Kept>,
    moved: watch::Sender<u64>,
}

impl Default for Record {
    fn default() -> Self {
        Self { kept: Mutex::default(), moved: watch::Sender::new(0) }
    }
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.moved.send_modify(|moves| *moves += 1);
    }

    /// Changes whenever a request arrives or is answered.
    pub(crate) fn traffic(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Adds an arrival; the number is for what follows.
    pub(crate) fn arrived(&self, asked: &Asked) -> u64 {
        let mut kept = self.lock();
        let order = kept.next;
        kept.next += 1;
        kept.all.push_back(Asked { order, ..asked.clone() });
        if kept.all.len() > LIMIT {
            kept.all.pop_front();
        }
        drop(kept);
        self.changed();
        order
    }

    pub(crate) fn answered(&self, order: u64, code: u16, denied: Option<String>) {
        self.edit(order, |asked| (asked.code, asked.denied) = (Some(code), denied));
    }

    pub(crate) fn initial(&self, order: u64, events: InitialEvents) {
        self.edit(order, |asked| asked.initial = Some(events));
    }

    fn edit(&self, order: u64, change: impl FnOnce(&mut Asked)) {
        let mut kept = self.lock();
        let first = kept.all.front().map_or(order, |asked| asked.order);
        let place = order.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        // One that is no longer kept has nothing left to note.
        if let Some(asked) = place.and_then(|place| kept.all.get_mut(place)) {
            change(asked);
        }
        drop(kept);
        self.changed();
    }

    /// Forgets them; numbers go on, so that an answer to one of before finds none.
    pub(crate) fn clear(&self) {
        self.lock().all.clear();
        self.changed();
    }

    pub(crate) fn all(&self) -> Vec<Asked> {
        self.lock().all.iter().cloned().collect()
    }

    pub(crate) fn count(&self, filter: Filter<'_>) -> usize {
        self.lock().all.iter().filter(|asked| filter(asked)).count()
    }

    pub(crate) async fn until(&self, count: usize, filter: Filter<'_>) {
        let mut moved = self.moved.subscribe();
        // The sender lives in `self`.
        let _alive = moved.wait_for(|_| self.count(filter) >= count).await;
    }
}
