// SPDX-License-Identifier: Apache-2.0
//! Attempts at a node, and when the next one comes.

use std::time::Duration;

/// The attempts at a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// One is on its way.
    pub(super) busy: bool,
    pub(super) failures: u32,
    /// Not before.
    pub(super) due: Option<Duration>,
    /// Why the taint stays, as it was last told.
    pub(super) told: Option<String>,
}

impl Attempts {
    /// One ended.
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

    /// Whether nothing is on its way, and what failed did so more often than by chance.
    pub(super) fn is_through(&self) -> bool {
        !self.busy && (self.due.is_none() || self.failures >= QUICK)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    Badly,
}

/// After so many failures in a row we take our time.
const QUICK: u32 = 5;

/// How long until a deed that failed so often is tried again. It never ends: a node that nobody untaints is a node lost.
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
