// SPDX-License-Identifier: Apache-2.0
//! Differences where the rules of the native back end are wanted. Its tables are ours as a whole, so everything in them counts: other
//! chains, other rules, a policy.

use super::{Difference, compare_rules, dormant, is_hooked, other_backend, place, state_place};
use crate::nft::verdict;
use crate::ours::Survey;
use crate::snapshot::{ChainState, TableState};
use crate::wanted::{Wanted, WantedTable};

pub(super) fn differences(survey: &Survey<'_>, wanted: &Wanted<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    for own in &survey.tables {
        let mut differences = Vec::new();
        super::unexpected(own, None, &mut differences);
        if !differences.is_empty() {
            found.push(other_backend(own.state));
        }
    }
    for table in &wanted.tables {
        missing(table, survey.native(table.home), &mut found);
    }
    for (home, state) in &survey.native {
        match wanted.table(*home) {
            Some(table) => unexpected(table, state, &mut found),
            None => {
                found.push(Difference::UnexpectedTable { family: state.family, table: state.name.clone() })
            }
        }
    }
    found
}

fn missing(wanted: &WantedTable<'_>, state: Option<&TableState>, found: &mut Vec<Difference>) {
    if let Some(state) = state {
        dormant(state, found);
    }
    for chain in &wanted.chains {
        let place = place(wanted.home, chain.chain);
        let Some(state) = state.and_then(|state| state.chain(chain.chain.native_name())) else {
            found.push(Difference::MissingChain(place));
            continue;
        };
        if !is_hooked(wanted, chain, state) {
            found.push(Difference::WrongHook(place.clone()));
        }
        if drops(state) {
            found.push(Difference::WrongPolicy(place.clone()));
        }
        compare_rules(&place, &chain.rules, &state.rules.iter().collect::<Vec<_>>(), found);
    }
}

fn drops(chain: &ChainState) -> bool {
    chain.base.as_ref().is_some_and(|base| i64::from(base.policy) != i64::from(verdict::ACCEPT))
}

fn unexpected(wanted: &WantedTable<'_>, state: &TableState, found: &mut Vec<Difference>) {
    let chains = state.chains.iter().filter(|chain| wanted.chain(chain.name.as_bytes()).is_none());
    found.extend(chains.map(|chain| Difference::UnexpectedChain(state_place(state, chain))));
}
