// SPDX-License-Identifier: Apache-2.0
//! Decision about rules that the iptables tools write; pure.
//!
//! Upstream counts rules of others as residue, and applies on top of what differs unless it is to reconcile, which fails where a chain of
//! the same name is there. Here only what is ours counts, and what differs is always replaced; to reconcile only adds guard rails.

use super::Options;
use crate::apply::Applied;
use crate::residue::Residue;

/// State of our rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Clean,
    /// As wanted.
    Same,
    /// Something else, or only a part.
    Different,
}

impl State {
    pub(crate) fn of(residue: &Residue) -> Self {
        match (residue.tables.is_empty(), residue.differs) {
            (true, _) => Self::Clean,
            (false, false) => Self::Same,
            (false, true) => Self::Different,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// There should be rules.
    Apply,
    /// There should be none.
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actions {
    /// All traffic is dropped meanwhile.
    pub guard: bool,
    /// Removes our rules.
    pub remove: bool,
    /// Adds wanted rules.
    pub add: bool,
}

impl Actions {
    /// Nothing.
    pub const NOTHING: Self = Self { guard: false, remove: false, add: false };

    /// Their outcome.
    #[must_use]
    pub fn applied(self) -> Applied {
        match self {
            Self { remove: true, .. } => Applied::Replaced,
            Self { add: true, .. } => Applied::Created,
            _ => Applied::Unchanged,
        }
    }
}

/// Decides.
#[must_use]
pub fn decide(state: State, purpose: Purpose, options: &Options) -> Actions {
    let replace = Actions { guard: options.reconcile, remove: true, add: true };
    match (state, purpose) {
        (State::Clean, Purpose::Apply) => Actions { add: true, ..Actions::NOTHING },
        (State::Clean, Purpose::Remove) => Actions::NOTHING,
        (State::Same, Purpose::Apply) if options.force => Actions { guard: false, ..replace },
        (State::Same, Purpose::Apply) => Actions::NOTHING,
        (State::Different, Purpose::Apply) => replace,
        (State::Same | State::Different, Purpose::Remove) => Actions { remove: true, ..Actions::NOTHING },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_with_every_option() {
        use Purpose::{Apply, Remove};
        use State::{Clean, Different, Same};
        let options = |reconcile, force| Options { reconcile, force, ..Options::default() };
        let [plain, reconcile, force, both] =
            [(false, false), (true, false), (false, true), (true, true)].map(|(r, f)| options(r, f));
        let table = [
            // state, purpose: plain, reconcile, force, both
            (Clean, Apply, ["add", "add", "add", "add"]),
            (Same, Apply, ["", "", "remove add", "remove add"]),
            (Different, Apply, ["remove add", "guard remove add", "remove add", "guard remove add"]),
            (Clean, Remove, ["", "", "", ""]),
            (Same, Remove, ["remove", "remove", "remove", "remove"]),
            (Different, Remove, ["remove", "remove", "remove", "remove"]),
        ];
        for (state, purpose, expected) in table {
            let found = [plain, reconcile, force, both].map(|options| {
                let actions = decide(state, purpose, &options);
                let words = [(actions.guard, "guard"), (actions.remove, "remove"), (actions.add, "add")];
                let words: Vec<_> = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
                words.join(" ")
            });
            assert_eq!(found, expected, "{state:?} {purpose:?}");
        }
    }
}
