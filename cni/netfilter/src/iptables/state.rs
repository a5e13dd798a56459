// SPDX-License-Identifier: Apache-2.0
//! Our rules in the tables of a variant, read in process.

use redirect::found::compare::Form;
use redirect::ruleset::Ruleset;

use super::{IptablesError, Variant};
use crate::found::found_rules;
use crate::legacy;
use crate::read::read;
use crate::residue::{self, Residue};
use crate::snapshot::NfFamily;

/// Our rules, and whether they are as wanted.
pub(super) fn residue(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    match variant {
        Variant::Legacy => Ok(residue::residue(&legacy::read()?, ruleset, Form::Legacy)),
        Variant::Nft => Ok(residue::residue(&found_rules(&read()?), ruleset, Form::Iptables)),
    }
}

/// The same of the tables alone that the variant's tools write: native ones of ours go when the new rules stand.
pub(super) fn residue_of_tools(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    if variant == Variant::Legacy {
        return residue(variant, ruleset);
    }
    let mut snapshot = read()?;
    snapshot.tables.retain(|table| table.family != NfFamily::Inet);
    Ok(residue::residue(&found_rules(&snapshot), ruleset, Form::Iptables))
}
