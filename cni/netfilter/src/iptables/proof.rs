// SPDX-License-Identifier: Apache-2.0
//! Proof that the kernel holds a tool's changes. A tool's exit status is no proof: one that could read nothing of its input, or a
//! wrapper in its place, succeeds as well.

use redirect::found::FoundRules;
use redirect::ruleset::{Family, Id, Match, Owner, Ruleset};

use super::decide::Purpose;
use super::{IptablesError, Variant, state};
use crate::residue::Residue;

/// Reads back what a variant's tables hold.
///
/// # Errors
/// [`IptablesError::Unproven`] if that is not what `purpose` asks for, or it cannot be read.
pub(super) fn check(variant: Variant, ruleset: &Ruleset, purpose: Purpose) -> Result<(), IptablesError> {
    let residue = state::residue_of_tools(variant, ruleset)?;
    let proven = match purpose {
        Purpose::Apply if ruleset.rules.is_empty() => is_gone(&residue),
        // Only the tools know what number a name stands for.
        Purpose::Apply if has_names(ruleset) => has_as_many(&state::found_rules(variant)?, variant, ruleset),
        Purpose::Apply => !residue.differs,
        Purpose::Remove => is_gone(&residue),
    };
    if proven { Ok(()) } else { Err(IptablesError::Unproven { variant, purpose }) }
}

/// True if nothing of ours is left but chains that foreign rules hold.
fn is_gone(residue: &Residue) -> bool {
    residue.tables.iter().all(|table| table.rules.is_empty() && table.chains.iter().all(|chain| chain.held))
}

/// True if a rule names a user, a group or a service.
fn has_names(ruleset: &Ruleset) -> bool {
    ruleset.rules.iter().flat_map(|rule| &rule.matches).any(|condition| match condition {
        Match::Owner(_, Owner::Uid(id) | Owner::Gid(id)) => matches!(id, Id::Name(_)),
        Match::SourcePort(_, port) | Match::DestinationPort(_, port) => port.bounds().is_none(),
        _ => false,
    })
}

/// True if each chain of ours has as many rules as wanted, and each built-in one at least as many.
fn has_as_many(found: &FoundRules, variant: Variant, ruleset: &Ruleset) -> bool {
    [Family::V4, Family::V6].into_iter().all(|family| {
        ruleset.chains(family).iter().all(|wanted| {
            let table = found.find(variant.form().family(family), wanted.table.name());
            table.and_then(|table| table.find(wanted.chain.name())).is_some_and(|found| {
                let (found, wanted_rules) = (found.rules.len(), wanted.rules.len());
                found == wanted_rules || (wanted.chain.is_builtin() && found > wanted_rules)
            })
        })
    })
}
