// SPDX-License-Identifier: Apache-2.0
//! Our rules in the tables of a variant, read in process.

use redirect::found::compare::Form;
use redirect::found::{FoundFamily, FoundRules};
use redirect::ruleset::Ruleset;

use super::{IptablesError, Variant};
use crate::legacy;
use crate::read::read;
use crate::residue::{self, Residue};

impl Variant {
    /// The form of rules in its tables.
    pub(super) fn form(self) -> Form {
        match self {
            Self::Legacy => Form::Legacy,
            Self::Nft => Form::Iptables,
        }
    }
}

/// All rules, whoever wrote them.
pub(super) fn found_rules(variant: Variant) -> Result<FoundRules, IptablesError> {
    Ok(match variant {
        Variant::Legacy => legacy::read()?,
        Variant::Nft => crate::found_rules(&read()?),
    })
}

/// Our rules, and whether they are as wanted.
pub(super) fn residue(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    Ok(residue::residue(&found_rules(variant)?, ruleset, variant.form()))
}

/// The same of the tables alone that the variant's tools write: native ones of ours go when the new rules stand.
pub(super) fn residue_of_tools(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    let mut found = found_rules(variant)?;
    found.tables.retain(|table| table.family != FoundFamily::Inet);
    Ok(residue::residue(&found, ruleset, variant.form()))
}
