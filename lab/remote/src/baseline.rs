// SPDX-License-Identifier: Apache-2.0
//! State that outlives a scenario of a run that has the cluster to itself: the nodes as it is to leave them, and what is to be undone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::hand::Work;

use crate::before::Before;

/// Deadline of what stayed within a longer one.
const ONCE_MORE: Duration = Duration::from_secs(10);

/// Baseline of a run's scenarios.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// The nodes before the last scenario that began in a cluster without leftovers; none before the first.
    pub(crate) nodes: Arc<Vec<Before>>,
    pub(crate) condition: Condition,
    pub(crate) changes: Changes,
}

/// The cluster beside its baseline.
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
    /// A node whose runtime may have lost sight of its configurations.
    pub(crate) blind: Option<String>,
    /// Orders that open what was closed on a node, in the order in which that was.
    pub(crate) closed: Vec<(String, Work)>,
    /// Files and directories that were made on a node, in order, where nobody looks for what is new.
    pub(crate) made: Vec<(String, PathBuf)>,
    /// Pods were told to trust others than the cluster's authority.
    pub(crate) trusts_others: bool,
}

impl Baseline {
    /// The nodes as a scenario that begins is to leave them: as it finds them, since owner and network change theirs during a run. Leftovers are no
    /// one's wish, so after a scenario that had any the former baseline stays.
    pub(crate) fn begin(&mut self, found: Vec<Before>) -> Arc<Vec<Before>> {
        if self.condition == Condition::Same {
            self.nodes = Arc::new(found);
        }
        self.condition = Condition::Dirty;
        Arc::clone(&self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_tidied_first_and_a_wreck_costs_little() {
        let usual = Duration::from_secs(120);
        assert_eq!(Baseline::default().condition.deadline(usual), None);
        assert_eq!(Condition::Dirty.deadline(usual), Some(usual));
        assert_eq!(Condition::Wrecked.deadline(usual), Some(ONCE_MORE));
    }

    #[test]
    fn what_the_owner_changes_between_scenarios_stays_and_leftovers_do_not() {
        let mut baseline = Baseline::default();
        let begin = |baseline: &mut Baseline, plugin: &str| {
            let (configurations, node) = Default::default();
            let found = vec![Before { configurations, plugins: [plugin.to_owned()].into(), node }];
            baseline.begin(found)[0].plugins.iter().next().cloned().unwrap_or_default()
        };
        assert_eq!(begin(&mut baseline, "first"), "first");
        assert_eq!(begin(&mut baseline, "dirty"), "first");
        baseline.condition = Condition::Wrecked;
        assert_eq!(begin(&mut baseline, "wrecked"), "first");
        baseline.condition = Condition::Same;
        assert_eq!(begin(&mut baseline, "owners"), "owners");
    }
}
