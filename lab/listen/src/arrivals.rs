// SPDX-License-Identifier: Apache-2.0
//! Requests in the order of arrival, for assertions and for evidence. Bounded.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// Far more than any scenario causes. The oldest go: a scenario asserts on what it has just caused.
const LIMIT: usize = 100_000;

#[derive(Debug)]
pub struct Arrivals<T> {
    kept: Mutex<Kept<T>>,
    limit: usize,
    moved: watch::Sender<u64>,
}

#[derive(Debug)]
struct Kept<T> {
    all: VecDeque<T>,
    next: u64,
}

impl<T> Kept<T> {
    /// Number of the first.
    fn first(&self) -> u64 {
        self.next.saturating_sub(u64::try_from(self.all.len()).unwrap_or(u64::MAX))
    }
}

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl<T> Arrivals<T> {
    fn new(limit: usize) -> Self {
        let kept = Kept { all: VecDeque::new(), next: 0 };
        Self { kept: Mutex::new(kept), limit, moved: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.kept.lock()
    }

    fn change<R>(&self, change: impl FnOnce(&mut Kept<T>) -> R) -> R {
        let result = change(&mut self.lock());
        self.moved.send_modify(|moves| *moves += 1);
        result
    }

    /// Changes whenever a request arrives or is edited.
    #[must_use]
    pub fn traffic(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// Adds an arrival; its number, from 0, is for [`Self::edit`].
    pub fn arrived(&self, arrival: impl FnOnce(u64) -> T) -> u64 {
        self.change(|kept| {
            let order = kept.next;
            kept.next += 1;
            kept.all.push_back(arrival(order));
            if kept.all.len() > self.limit {
                kept.all.pop_front();
            }
            order
        })
    }

    /// Changes one; what is no longer kept has nothing left to note.
    pub fn edit(&self, order: u64, edit: impl FnOnce(&mut T)) {
        self.change(|kept| {
            let place = order.checked_sub(kept.first()).and_then(|place| usize::try_from(place).ok());
            place.and_then(|place| kept.all.get_mut(place)).map(edit)
        });
    }

    /// Forgets them; numbers go on, so that an answer to one of before finds none.
    pub fn clear(&self) {
        self.change(|kept| kept.all.clear());
    }

    #[must_use]
    pub fn all(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.lock().all.iter().cloned().collect()
    }

    /// Number of matching ones.
    pub fn count(&self, mut filter: impl FnMut(&T) -> bool) -> usize {
        self.lock().all.iter().filter(|one| filter(one)).count()
    }

    /// Waits until at least `count` match.
    pub async fn until(&self, count: usize, mut filter: impl FnMut(&T) -> bool) {
        let mut moved = self.moved.subscribe();
        // The sender lives in `self`.
        let _alive = moved.wait_for(|_| self.count(&mut filter) >= count).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_the_others_keep_their_numbers() {
        let arrivals = Arrivals::new(2);
        for _ in 0..3 {
            arrivals.arrived(|order| (order, ""));
        }
        arrivals.edit(0, |gone| gone.1 = "edited");
        arrivals.edit(2, |last| last.1 = "edited");
        assert_eq!(arrivals.all(), [(1, ""), (2, "edited")]);
    }
}
