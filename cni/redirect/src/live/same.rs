// SPDX-License-Identifier: Apache-2.0
//! When a rule that was found is a wanted one: both have the same conditions and do the same. Spelling, host bits of a prefix and the
//! order of conditions do not matter.

use super::{Action, Condition, LiveRule};
use crate::ruleset::{Dialect, Match, Rule, Target};

/// Equality of meaning.
#[must_use]
pub fn same(wanted: &Rule, found: &LiveRule) -> bool {
    let conditions: Option<Vec<&Match>> = found.conditions.iter().map(Condition::known).collect();
    let Some(conditions) = conditions else { return false };
    does(&wanted.target, found)
        && within(&plain(wanted.matches.iter()), &plain(conditions.iter().copied()))
        && within(&plain(conditions.into_iter()), &plain(wanted.matches.iter()))
}

fn within<T: PartialEq>(some: &[T], all: &[T]) -> bool {
    some.iter().all(|one| all.contains(one))
}

/// Conditions in the form in which every listing has them; those that always hold are left out.
fn plain<'a>(conditions: impl Iterator<Item = &'a Match>) -> Vec<Match> {
    conditions.filter_map(Match::normal).collect()
}

fn does(wanted: &Target, found: &LiveRule) -> bool {
    let wanted = Action::of(wanted, found.dialect);
    let found = || found.actions.iter().filter(|action| **action != Action::Nothing);
    found().count() == wanted.len() && wanted.iter().all(|action| found().any(|found| found == action))
}

impl Action {
    /// Actions of a target: TPROXY has three.
    #[must_use]
    pub fn of(target: &Target, dialect: Dialect) -> Vec<Self> {
        vec![match *target {
            Target::Accept => Self::Accept,
            Target::Drop => Self::Drop,
            Target::Return => Self::Return,
            Target::Jump(chain) => Self::Jump(
                match dialect {
                    Dialect::Iptables => chain.name(),
                    Dialect::Nft => chain.native_name(),
                }
                .to_owned(),
            ),
            Target::Redirect { port } => Self::Redirect(port),
            Target::SetMark(mark) => Self::SetMark(mark),
            Target::Tproxy { mark, port } => {
                return vec![Self::SetMark(mark), Self::Tproxy(port), Self::Accept];
            }
            Target::SaveMark => Self::SaveMark,
            Target::RestoreMark => Self::RestoreMark,
            Target::CtZone(zone) => Self::CtZone(zone),
        }]
    }
}
