// SPDX-License-Identifier: Apache-2.0
//! What outlives a scenario of a run that has the cluster to itself: the nodes as they were before the first, and what is to be undone.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::before::Before;

/// Deadline of what stayed within a longer one.
const ONCE_MORE: Duration = Duration::from_secs(10);

/// Baseline of a run's scenarios.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// The nodes before the first scenario.
    pub(crate) nodes: OnceLock<Vec<Before>>,
    condition: Mutex<Condition>,
    changes: Mutex<Changes>,
}

/// The cluster beside what it was before the first scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Condition {
    #[default]
    Same,
    /// A scenario has begun and did not undo all that it changed.
    Dirty,
    /// The next one could not undo it either.
    Wrecked,
}

impl Condition {
    /// Deadline of what is to go before a scenario begins, if anything is: one that stays for ever costs each of the later scenarios little.
    pub(crate) fn deadline(self, usual: Duration) -> Option<Duration> {
        match self {
            Self::Same => None,
            Self::Dirty => Some(usual),
            Self::Wrecked => Some(ONCE_MORE.min(usual)),
        }
    }
}

/// Changes of machines, which only their owner can undo.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// A disk of its own that a node's directory has.
    pub(crate) disk: Option<(String, PathBuf)>,
    /// A node whose memory is short.
    pub(crate) short: Option<String>,
    /// Pods were told to trust others than the cluster's authority.
    pub(crate) trusts_others: bool,
}

impl Baseline {
    pub(crate) fn condition(&self) -> Condition {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn becomes(&self, condition: Condition) {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
    }

    pub(crate) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_tidied_first_and_a_wreck_costs_little() {
        let usual = Duration::from_secs(120);
        assert_eq!(Baseline::default().condition().deadline(usual), None);
        assert_eq!(Condition::Dirty.deadline(usual), Some(usual));
        assert_eq!(Condition::Wrecked.deadline(usual), Some(ONCE_MORE));
    }
}
