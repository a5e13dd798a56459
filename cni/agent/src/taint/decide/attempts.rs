// SPDX-License-Identifier: Apache-2.0
//! Attempts at a node, and when the next one comes.

use std::time::Duration;

/// Attempts at a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// In flight.
    pub(super) busy: bool,
    /// The watch has told of the node since the last request was sent.
    pub(super) told: bool,
    pub(super) failures: u32,
    /// Backoff ends.
    pub(super) due: Option<Duration>,
    /// Last reported reason of a taint that stays.
    pub(super) reported: Option<String>,
}

impl Attempts {
    pub(super) fn ended(&mut self, how: Ending, now: Duration) {
        self.busy = false;
        (self.failures, self.due) = match how {
            Ending::Well => (0, None),
            Ending::Badly => {
                let failures = self.failures.saturating_add(1);
                (failures, wait(failures).map(|wait| now.saturating_add(wait)))
            }
        };
    }

    /// True if nothing is in flight, and failures are no coincidence.
    pub(super) fn is_through(&self) -> bool {
        !self.busy && (self.due.is_none() || self.failures >= QUICK)
    }
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    Badly,
}

/// Consecutive failures before the backoff grows long.
const QUICK: u32 = 5;

/// Backoff after so many failures. Retries never end: a node that stays tainted is a node lost.
pub(in super::super) fn wait(failures: u32) -> Option<Duration> {
    const FIRST: Duration = Duration::from_millis(100);
    const SLOW: Duration = Duration::from_secs(30);
    const LONGEST: Duration = Duration::from_secs(300);
    match failures {
        0 => None,
        few @ 1..=QUICK => Some(FIRST * (1 << (few - 1))),
        many => Some((SLOW * (1 << (many - QUICK - 1).min(4))).min(LONGEST)),
    }
}
