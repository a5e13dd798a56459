// SPDX-License-Identifier: Apache-2.0
//! Ownership in a snapshot ([`redirect::found::ours`]), table by table; pure.

use redirect::found::ours::Ours;
use redirect::found::{FoundRules, FoundTable};
use redirect::ruleset::Table;

use crate::found::{family, without_text};
use crate::home::Home;
use crate::snapshot::{ChainState, NfFamily, Snapshot, TableState};
use crate::wanted::{Wanted, WantedTable};

/// True if the namespace holds redirection rules of any version and of either nf_tables back end: a chain of ours with a rule
/// in it, or a jump to one. Rules of the legacy back end cannot be seen in a snapshot: see [`crate::legacy`].
#[must_use]
pub fn has_rules_of_ours(snapshot: &Snapshot) -> bool {
    without_text(snapshot).hold_ours()
}

/// Our part of one table.
pub(crate) struct OwnTable<'a> {
    pub(crate) home: Home,
    pub(crate) state: &'a TableState,
    found: &'a FoundTable,
    /// Chains of ours.
    pub(crate) chains: Vec<&'a ChainState>,
    /// Built-in chains, and for each rule in them whether it is ours.
    pub(crate) built_in: Vec<(&'a ChainState, Vec<bool>)>,
}

/// Our part of a namespace, and the tables that it is in.
pub(crate) struct Survey<'a> {
    /// Tables of the native back end.
    pub(crate) native: Vec<(Home, &'a TableState)>,
    /// Tables of iptables.
    pub(crate) tables: Vec<OwnTable<'a>>,
}

impl<'a> Survey<'a> {
    /// `found` is the same snapshot, decoded.
    pub(crate) fn new(snapshot: &'a Snapshot, found: &'a FoundRules, wanted: &Wanted<'_>) -> Self {
        let tables = iptables_tables(snapshot)
            .filter_map(|(home, state)| {
                let found = found.find(family(home.family), home.table_name())?;
                let chains = state.chains.iter().zip(&found.chains).filter(|(_, found)| found.is_ours());
                let chains = chains.map(|(chain, _)| chain).collect();
                let ours = Ours::of(found, &wanted.ruleset.rules);
                let built_in = built_in((state, found), &ours, wanted.table(home));
                Some(OwnTable { home, state, chains, built_in, found })
            })
            .collect();
        Self { native: native_tables(snapshot).collect(), tables }
    }

    /// Our part of a table of iptables.
    pub(crate) fn table(&self, home: Home) -> Option<&OwnTable<'a>> {
        self.tables.iter().find(|own| own.home == home)
    }

    /// A table of the native back end.
    pub(crate) fn native(&self, home: Home) -> Option<&'a TableState> {
        self.native.iter().find(|(own, _)| *own == home).map(|(_, state)| *state)
    }

    /// True if nothing of ours is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.native.is_empty()
            && self.tables.iter().all(|table| {
                table.chains.is_empty() && !table.built_in.iter().any(|(_, own)| own.contains(&true))
            })
    }
}

impl<'a> OwnTable<'a> {
    /// True if a rule of others jumps to a chain of ours.
    pub(crate) fn is_held(&self, chain: &str) -> bool {
        self.found.is_held(chain)
    }
}

/// The tables of the native back end.
pub(crate) fn native_tables(snapshot: &Snapshot) -> impl Iterator<Item = (Home, &TableState)> {
    tables_at(snapshot, NfFamily::Inet)
}

/// The tables that iptables works on.
fn iptables_tables(snapshot: &Snapshot) -> impl Iterator<Item = (Home, &TableState)> {
    tables_at(snapshot, NfFamily::Ip).chain(tables_at(snapshot, NfFamily::Ip6))
}

fn tables_at(snapshot: &Snapshot, family: NfFamily) -> impl Iterator<Item = (Home, &TableState)> {
    Table::ALL.into_iter().filter_map(move |table| {
        let home = Home { family, table };
        snapshot.table(family, home.table_name()).map(|state| (home, state))
    })
}

fn built_in<'a>(
    (state, found): (&'a TableState, &FoundTable),
    ours: &Ours<'_>,
    wanted: Option<&WantedTable<'_>>,
) -> Vec<(&'a ChainState, Vec<bool>)> {
    let chains = state.chains.iter().zip(&found.chains).filter(|(_, found)| found.is_built_in());
    chains
        .map(|(state, chain)| {
            let wanted = wanted.and_then(|wanted| wanted.chain(state.name.as_bytes()));
            let wanted = wanted.map_or(&[][..], |chain| &chain.rules);
            let own = chain.rules.iter().map(|rule| ours.has(chain, rule, wanted));
            (state, own.collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use redirect::config::Config;
    use redirect::generate::ruleset;
    use redirect::ruleset::Dialect;

    use super::*;
    use crate::fake::{commit, ordinary, untouched};
    use crate::plan::{Plan, plan};

    #[test]
    fn tables_of_ours_without_a_rule_redirect_nothing() {
        for dialect in [Dialect::Iptables, Dialect::Nft] {
            let mut snapshot = untouched();
            let wanted = ruleset(&Config { dialect, ..ordinary() }).unwrap();
            let Plan::Send { batch, .. } = plan(&snapshot, &wanted).unwrap() else { panic!("nothing to do") };
            commit(&mut snapshot, &batch);
            assert!(has_rules_of_ours(&snapshot), "{dialect:?}");
            let chains = snapshot.tables.iter_mut().flat_map(|table| &mut table.chains);
            chains.for_each(|chain| chain.rules.clear());
            assert!(!has_rules_of_ours(&snapshot), "{dialect:?}");
        }
    }
}
