// SPDX-License-Identifier: Apache-2.0
//! Time and chance, behind a trait: everything that waits or times out here is driven by a [`Clock`], so that tests play
//! ten seconds of retries in no time.

use std::time::{Duration, Instant, SystemTime};

use rustix::event::Timespec;

/// The plugin's view of time.
pub trait Clock {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// The time of day, for log lines.
    fn wall(&self) -> SystemTime;
    /// Returns after `time` has passed.
    fn wait(&self, time: Duration);
    /// A random number, for jitter.
    fn noise(&self) -> u64;
}

/// The machine's clock. Its fixed moment is when it was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn wait(&self, time: Duration) {
        let deadline = Deadline::after(self, time);
        loop {
            let left = deadline.left(self);
            if left.is_zero() {
                return;
            }
            // Nothing to poll for: an interrupted call comes round again with what is left.
            let _ = rustix::event::poll(&mut [], Some(&timespec(left)));
        }
    }

    fn noise(&self) -> u64 {
        let mut bytes = [0; 8];
        // Jitter without randomness is still a wait.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        u64::from_ne_bytes(bytes)
    }
}

/// A moment after which something is not worth waiting for.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Duration);

impl Deadline {
    /// The moment `time` from now.
    pub fn after(clock: &dyn Clock, time: Duration) -> Self {
        Self(clock.now().saturating_add(time))
    }

    /// Remaining time; zero once it has passed.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.now())
    }
}

/// `time` as the kernel wants it.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_as_long_as_asked() {
        let clock = SystemClock::start();
        let before = clock.now();
        clock.wait(Duration::from_millis(20));
        let passed = clock.now() - before;
        assert!(passed >= Duration::from_millis(20), "{passed:?}");
        assert!(passed < Duration::from_secs(5), "{passed:?}");
    }

    #[test]
    fn a_deadline_in_the_past_has_nothing_left() {
        let clock = SystemClock::start();
        let deadline = Deadline::after(&clock, Duration::ZERO);
        clock.wait(Duration::from_millis(1));
        assert_eq!(deadline.left(&clock), Duration::ZERO);
    }

    #[test]
    fn noise_differs() {
        assert_ne!(SystemClock::start().noise(), SystemClock::start().noise());
    }
}
