// SPDX-License-Identifier: Apache-2.0
//! Stand-ins for the world, for tests.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::Clock;

/// A clock that moves only when somebody waits or pushes it.
pub(crate) struct FakeClock {
    now: Cell<Duration>,
    /// Every wait, in order.
    pub(crate) waits: RefCell<Vec<Duration>>,
    /// What [`Clock::noise`] gives.
    pub(crate) noise: u64,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        Self { now: Cell::new(Duration::from_secs(1000)), waits: RefCell::default(), noise: 0 }
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_770_000_000)
    }

    fn wait(&self, time: Duration) {
        self.waits.borrow_mut().push(time);
        self.advance(time);
    }

    fn noise(&self) -> u64 {
        self.noise
    }
}
