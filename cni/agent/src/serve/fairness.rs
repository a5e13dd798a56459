// SPDX-License-Identifier: Apache-2.0
//! How much of the agent one process may have. A plugin is a process of its own for each call and asks once, so what is limited here is
//! something else. Pure: told the time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Processes that are remembered. Beyond that, those who have nothing open and used nothing up lately are forgotten.
const REMEMBERED: usize = 1024;

/// What one process may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Connections at a time.
    pub open: u32,
    /// Connections at once, after a pause.
    pub burst: f64,
    /// Connections a second.
    pub rate: f64,
}

#[derive(Debug, Clone, Copy)]
struct Peer {
    open: u32,
    left: f64,
    at: Duration,
}

/// Who has how much, shared by the connections.
#[derive(Debug, Clone)]
pub(super) struct Desk(Arc<Mutex<Fairness>>);

/// A connection of a process, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    desk: Desk,
    process: i32,
}

impl Desk {
    pub(super) fn new(share: Share) -> Self {
        Self(Arc::new(Mutex::new(Fairness::new(share))))
    }

    /// A seat for a process, if it may have another one.
    pub(super) fn seat(&self, process: i32, now: Duration) -> Option<Seat> {
        let admitted = self.lock().admit(process, now);
        admitted.then(|| Seat { desk: self.clone(), process })
    }

    fn lock(&self) -> MutexGuard<'_, Fairness> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.lock().release(self.process);
    }
}

/// Who has how much.
#[derive(Debug)]
struct Fairness {
    share: Share,
    peers: HashMap<i32, Peer>,
}

impl Fairness {
    fn new(share: Share) -> Self {
        Self { share, peers: HashMap::new() }
    }

    /// Whether a process may have another connection, and takes it.
    fn admit(&mut self, process: i32, now: Duration) -> bool {
        let share = self.share;
        if self.peers.len() >= REMEMBERED {
            self.peers.retain(|_, peer| peer.open > 0 || peer.filled(share, now) < share.burst);
        }
        let peer = self.peers.entry(process).or_insert(Peer { open: 0, left: share.burst, at: now });
        peer.left = peer.filled(share, now);
        peer.at = now;
        if peer.open >= share.open || peer.left < 1.0 {
            return false;
        }
        peer.open += 1;
        peer.left -= 1.0;
        true
    }

    /// A process has one connection less.
    fn release(&mut self, process: i32) {
        if let Some(peer) = self.peers.get_mut(&process) {
            peer.open = peer.open.saturating_sub(1);
        }
    }
}

impl Peer {
    fn filled(&self, share: Share, now: Duration) -> f64 {
        (self.left + now.saturating_sub(self.at).as_secs_f64() * share.rate).min(share.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SHARE: Share = Share { open: 2, burst: 4.0, rate: 1.0 };

    #[test]
    fn connections_at_a_time_are_bounded_for_each() {
        let mut fairness = Fairness::new(SHARE);
        assert!(fairness.admit(1, SECOND) && fairness.admit(1, SECOND));
        assert!(!fairness.admit(1, SECOND));
        assert!(fairness.admit(2, SECOND), "another one has its own share");
        fairness.release(1);
        assert!(fairness.admit(1, SECOND));
    }

    #[test]
    fn the_rate_is_bounded_and_a_pause_helps() {
        let mut fairness = Fairness::new(SHARE);
        let mut admitted = |at: Duration| {
            let admitted = fairness.admit(1, at);
            if admitted {
                fairness.release(1);
            }
            admitted
        };
        assert_eq!((0..10).filter(|_| admitted(SECOND)).count(), 4);
        assert_eq!((0..10).filter(|_| admitted(2 * SECOND)).count(), 1);
        assert_eq!((0..10).filter(|_| admitted(100 * SECOND)).count(), 4);
    }

    #[test]
    fn processes_that_went_are_forgotten() {
        let mut fairness = Fairness::new(SHARE);
        for process in 0..10_000 {
            let now = SECOND * u32::try_from(process).unwrap();
            assert!(fairness.admit(process, now));
            fairness.release(process);
        }
        assert!(fairness.peers.len() <= REMEMBERED);
    }
}
