// SPDX-License-Identifier: Apache-2.0
//! When a rule that was found is a wanted one: both have the same conditions and do the same. Spelling, host bits of a prefix and the
//! order of conditions do not matter. Planning, diagnosis and validation all ask this. It is as exact as planning needs because
//! whatever is not understood whole is [`Condition::Unknown`] or [`Action::Unknown`], which is no wanted rule: it is written anew.

use super::{Action, Condition, FoundFamily, FoundRule};
use crate::ruleset::{Dialect, Family, Match, Rule, Target};

/// Equality of meaning in a table of `family`.
#[must_use]
pub fn same(wanted: &Rule, found: &FoundRule, family: FoundFamily) -> bool {
    // Actions are compared first, without a copy: most pairs differ there.
    does(&wanted.target, found)
        && Meaning::found(found, family)
            .is_some_and(|found_meaning| found_meaning == Meaning::wanted(wanted, found.dialect, family))
}

/// A rule in normal form: equal for rules that are the [`same`](fn@same).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Meaning {
    conditions: Vec<Match>,
    actions: Vec<Action>,
}

impl Meaning {
    pub(super) fn wanted(rule: &Rule, dialect: Dialect, family: FoundFamily) -> Self {
        Self::normal(rule.matches.iter(), Action::of(&rule.target, dialect), (dialect, family))
    }

    /// None if part of the rule is not understood.
    pub(super) fn found(rule: &FoundRule, family: FoundFamily) -> Option<Self> {
        let conditions: Option<Vec<&Match>> = rule.conditions.iter().map(Condition::known).collect();
        let actions = does_something(rule).cloned().collect();
        Some(Self::normal(conditions?.into_iter(), actions, (rule.dialect, family)))
    }

    /// Conditions in the form in which every listing has them, without those that always hold or that another one implies.
    fn normal<'a>(
        conditions: impl Iterator<Item = &'a Match>,
        mut actions: Vec<Action>,
        (dialect, family): (Dialect, FoundFamily),
    ) -> Self {
        let only = family.only();
        let mut conditions: Vec<Match> =
            conditions.filter_map(|condition| condition.normal(dialect, only)).collect();
        // An address says of which family a packet is.
        for implied in [Family::V4, Family::V6] {
            let is_of = |condition: &Match| match condition {
                Match::Source(_, cidr) | Match::Destination(_, cidr) => cidr.family() == implied,
                _ => false,
            };
            if conditions.iter().any(is_of) {
                conditions.retain(|condition| *condition != Match::Family(implied));
            }
        }
        conditions.sort_unstable();
        conditions.dedup();
        // The last one stays: behind an action that ends the rule nothing runs.
        if let [first @ .., _] = actions.as_mut_slice() {
            first.sort_unstable();
        }
        Self { conditions, actions }
    }
}

/// Its actions, without log lines.
pub(super) fn does_something(rule: &FoundRule) -> impl Iterator<Item = &Action> {
    rule.actions.iter().filter(|action| **action != Action::Nothing)
}

fn does(wanted: &Target, found: &FoundRule) -> bool {
    let wanted = Action::of(wanted, found.dialect);
    does_something(found).count() == wanted.len()
        && wanted.iter().all(|action| does_something(found).any(|found| found == action))
}

impl Action {
    /// Actions of a target: TPROXY has three.
    #[must_use]
    pub fn of(target: &Target, dialect: Dialect) -> Vec<Self> {
        vec![match *target {
            Target::Accept => Self::Accept,
            Target::Drop => Self::Drop,
            Target::Return => Self::Return,
            Target::Jump(chain) => Self::Jump(chain.name_in(dialect).to_owned()),
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
