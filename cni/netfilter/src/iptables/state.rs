// SPDX-License-Identifier: Apache-2.0
//! What is ours in the tables of a variant, read in process.

use redirect::ruleset::{Family, Ruleset};

use super::{IptablesError, Variant};
use crate::compare::differences;
use crate::legacy;
use crate::ours::Survey;
use crate::read::read;
use crate::residue::{OwnChain, Residue, TableResidue, own_rules, tellable};
use crate::snapshot::{NfFamily, Snapshot};
use crate::wanted::Wanted;

/// What is ours, and whether it is what is wanted.
pub(super) fn residue(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    match variant {
        Variant::Legacy => Ok(legacy::ours::residue(&legacy::read()?, ruleset)),
        Variant::Nft => nf_tables(&read()?, ruleset),
    }
}

/// The same of the tables alone that the variant's tools write: native ones of ours go when the new rules stand.
pub(super) fn residue_of_tools(variant: Variant, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    if variant == Variant::Legacy {
        return residue(variant, ruleset);
    }
    let mut snapshot = read()?;
    snapshot.tables.retain(|table| table.family != NfFamily::Inet);
    nf_tables(&snapshot, ruleset)
}

fn nf_tables(snapshot: &Snapshot, ruleset: &Ruleset) -> Result<Residue, IptablesError> {
    let nothing = Ruleset { rules: Vec::new(), ..ruleset.clone() };
    // The tools know values that cannot be written here (names of users, of services): such rules are always written anew.
    let (wanted, known) = match Wanted::new(ruleset) {
        Ok(wanted) => (wanted, true),
        Err(_) => (Wanted::new(&nothing).map_err(IptablesError::Encode)?, false),
    };
    let survey = Survey::new(snapshot, &wanted);
    let differs = !known || !differences(&survey, &wanted).is_empty();
    let tables = survey.tables.iter().filter_map(|own| {
        let family = match own.home.family {
            NfFamily::Ip => Family::V4,
            NfFamily::Ip6 => Family::V6,
            NfFamily::Inet => return None,
        };
        let chain = |name: String| OwnChain { held: own.is_held(&name), name };
        let rules = own.built_in.iter().flat_map(|(chain, flags)| {
            let name = chain.name.to_string();
            let rules = own.rules_of(&name).iter().map(tellable).zip(flags.iter().copied());
            own_rules(&name, &rules.collect::<Vec<_>>())
        });
        Some(TableResidue {
            family,
            table: own.home.table,
            chains: own.chains.iter().map(|state| chain(state.name.to_string())).collect(),
            rules: rules.collect(),
        })
    });
    let tables = tables.filter(|table| !table.chains.is_empty() || !table.rules.is_empty()).collect();
    Ok(Residue { tables, differs })
}
