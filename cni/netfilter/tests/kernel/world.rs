// SPDX-License-Identifier: Apache-2.0
//! Fresh network namespaces, and rule sets that their users allow.

use redirect::ruleset::{Id, Match, Owner, Ruleset};

/// Users that rules can name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// Any.
    Any,
    /// Only 0.
    One,
}

/// Where a case runs.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) users: Users,
}

impl World {
    /// Runs `work` in a fresh network namespace, on a thread of its own.
    pub(crate) fn fresh<T: Send>(self, work: impl FnOnce() -> T + Send) -> T {
        rig::netns::fresh(work)
    }

    /// The rule set with users that exist here.
    pub(crate) fn allow(self, mut ruleset: Ruleset) -> Ruleset {
        if self.users == Users::One {
            for rule in &mut ruleset.rules {
                for condition in &mut rule.matches {
                    if let Match::Owner(_, Owner::Uid(id) | Owner::Gid(id)) = condition {
                        *id = Id::Number(0);
                    }
                }
            }
        }
        ruleset
    }
}
