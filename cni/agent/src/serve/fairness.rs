// SPDX-License-Identifier: Apache-2.0
//! Limits per client: a process at a socket, an address at a port. Each call of the plugin is a process of its own with one request, so no limit
//! meets it. Pure: told the time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Clients that are remembered. Beyond that, those who have nothing open and used nothing up lately are forgotten.
const REMEMBERED: usize = 1024;

/// Limits of one client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Concurrent connections.
    pub open: u32,
    /// Burst of connections.
    pub burst: f64,
    /// Connections a second.
    pub rate: f64,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    open: u32,
    left: f64,
    at: Duration,
}

/// Limiter, shared by the connections; `W` is the client's identity.
#[derive(Debug)]
pub(crate) struct Desk<W>(Arc<Mutex<Fairness<W>>>);

/// Permit of a connection, released on drop.
#[derive(Debug)]
pub(crate) struct Seat<W: Copy + Eq + Hash> {
    desk: Desk<W>,
    who: W,
}

impl<W: Copy + Eq + Hash> Desk<W> {
    pub(crate) fn new(share: Share) -> Self {
        Self(Arc::new(Mutex::new(Fairness::new(share))))
    }

    /// Acquires a permit.
    pub(crate) fn seat(&self, who: W, now: Duration) -> Option<Seat<W>> {
        let admitted = self.lock().admit(who, now);
        admitted.then(|| Seat { desk: Self(Arc::clone(&self.0)), who })
    }

    fn lock(&self) -> MutexGuard<'_, Fairness<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Copy + Eq + Hash> Drop for Seat<W> {
    fn drop(&mut self) {
        self.desk.lock().release(self.who);
    }
}

/// State by client.
#[derive(Debug)]
struct Fairness<W> {
    share: Share,
    used: HashMap<W, Used>,
}

impl<W: Copy + Eq + Hash> Fairness<W> {
    fn new(share: Share) -> Self {
        Self { share, used: HashMap::new() }
    }

    /// Takes a permit if one is left; returns true if so.
    fn admit(&mut self, who: W, now: Duration) -> bool {
        let share = self.share;
        if self.used.len() >= REMEMBERED {
            self.used.retain(|_, used| used.open > 0 || used.filled(share, now) < share.burst);
        }
        let used = self.used.entry(who).or_insert(Used { open: 0, left: share.burst, at: now });
        used.left = used.filled(share, now);
        used.at = now;
        if used.open >= share.open || used.left < 1.0 {
            return false;
        }
        used.open += 1;
        used.left -= 1.0;
        true
    }

    /// Releases a permit.
    fn release(&mut self, who: W) {
        if let Some(used) = self.used.get_mut(&who) {
            used.open = used.open.saturating_sub(1);
        }
    }
}

impl Used {
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
        assert!(fairness.used.len() <= REMEMBERED);
    }
}
