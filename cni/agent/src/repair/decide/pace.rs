// SPDX-License-Identifier: Apache-2.0
//! Rate limits of repair: token bucket over the node, exponential backoff at one pod. They count requests, a conflict as well.

use std::time::Duration;

use super::Time;

/// A token bucket over the node: many pods that break at once are not all deleted within a second.
#[derive(Debug, Clone)]
pub struct Pace {
    every: Duration,
    burst: u32,
    /// Time at which the bucket has no debt.
    full_at: Time,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), 20)
    }
}

impl Pace {
    /// One action every `every`, in bursts of `burst`.
    #[must_use]
    pub fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst, full_at: Time::ZERO }
    }

    /// When the next action may start.
    pub(super) fn next(&self) -> Time {
        (self.full_at + self.every).saturating_sub(self.every * self.burst)
    }

    pub(super) fn allows(&self, now: Time) -> bool {
        self.next() <= now
    }

    pub(super) fn take(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + self.every;
    }
}

/// Exponential backoff after so many attempts: none, one second, two, … five minutes.
pub(super) fn after(attempts: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(300);
    match attempts.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => Duration::from_secs(1 << doublings.min(10)).min(LONGEST),
    }
}

/// Backoff after so many conflicts in a row before: 5 ms, 10, … 640, by which the watch has brought the other version. `None` after these eight:
/// what conflicts for more than a second is no change of the pod's.
pub(super) fn after_conflict(before: u32) -> Option<Duration> {
    (before < 8).then(|| Duration::from_millis(5 << before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_the_pace() {
        let mut pace = Pace::new(Duration::from_secs(1), 3);
        let at = Duration::from_secs;
        for _ in 0..3 {
            assert!(pace.allows(at(10)));
            pace.take(at(10));
        }
        assert!(!pace.allows(at(10)));
        assert_eq!(pace.next(), at(11));
        assert!(pace.allows(at(11)));
        pace.take(at(11));
        assert!(!pace.allows(at(11)) && pace.allows(at(12)));
    }

    #[test]
    fn waiting_doubles_up_to_five_minutes() {
        let waits: Vec<u64> = (0..12).map(|attempts| after(attempts).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(after(u32::MAX), after(11));
    }

    #[test]
    fn conflicts_are_waited_out_for_a_second_in_all() {
        let waits: Vec<u128> = (0..).map_while(after_conflict).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640]);
        assert_eq!(after_conflict(u32::MAX), None);
    }
}
