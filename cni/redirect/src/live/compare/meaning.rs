// SPDX-License-Identifier: Apache-2.0
//! Whether a rule that was found means what a wanted one says.

use crate::live::{Action, Condition, LiveRule};
use crate::ruleset::{Dialect, Match, Rule, Target};

/// Whether both have the same conditions and do the same.
pub(super) fn same(wanted: &Rule, found: &LiveRule) -> bool {
    let conditions: Option<Vec<&Match>> = found
        .conditions
        .iter()
        .map(|condition| match condition {
            Condition::Known(known) => Some(known),
            Condition::Unknown(_) => None,
        })
        .collect();
    let Some(conditions) = conditions else { return false };
    let (wanted_conditions, found_conditions) = (plain(wanted.matches.iter()), plain(conditions.into_iter()));
    let within = |some: &[Match], all: &[Match]| some.iter().all(|one| all.contains(one));
    within(&wanted_conditions, &found_conditions)
        && within(&found_conditions, &wanted_conditions)
        && does(&wanted.target, found)
}

/// Conditions in the form in which every listing has them, each once; those that always hold are left out.
fn plain<'a>(conditions: impl Iterator<Item = &'a Match>) -> Vec<Match> {
    let mut plain: Vec<Match> = Vec::new();
    for condition in conditions.filter_map(Match::normal) {
        if !plain.contains(&condition) {
            plain.push(condition);
        }
    }
    plain
}

fn does(wanted: &Target, found: &LiveRule) -> bool {
    let actions: Vec<&Action> = found.actions.iter().filter(|action| **action != Action::Nothing).collect();
    let is = |action: Action| matches!(actions.as_slice(), [only] if **only == action);
    match wanted {
        Target::Accept => is(Action::Accept),
        Target::Drop => is(Action::Drop),
        Target::Return => is(Action::Return),
        Target::Jump(chain) => {
            let name = match found.dialect {
                Dialect::Iptables => chain.name(),
                Dialect::Nft => chain.native_name(),
            };
            is(Action::Jump(name.to_owned()))
        }
        Target::Redirect { port } => is(Action::Redirect(*port)),
        Target::SetMark(mark) => is(Action::SetMark(*mark)),
        Target::Tproxy { mark, port } => {
            let wanted = [Action::SetMark(*mark), Action::Tproxy(*port), Action::Accept];
            actions.len() == wanted.len() && wanted.iter().all(|action| actions.contains(&action))
        }
        Target::SaveMark => is(Action::SaveMark),
        Target::RestoreMark => is(Action::RestoreMark),
        Target::CtZone(zone) => is(Action::CtZone(*zone)),
    }
}
