// SPDX-License-Identifier: Apache-2.0
//! Which of the rules in a namespace are ours: this version's, an older one's, upstream's, or half of any of them; pure.
//!
//! Ours are, in tables `filter`, `mangle`, `nat` and `raw` of families `ip` and `ip6`:
//!
//! * every chain whose name begins with `ISTIO_`, known here or not, with all that is in it;
//! * in the built-in chains
//!   * every rule that jumps to such a chain;
//!   * every rule that equals a wanted rule of the same chain (so that half a rule set without any chain is recognised);
//!   * in `mangle`, the TPROXY rules on marks 1337 and 1338, on the wanted marks or on those that our chains name: saving and
//!     restoring the connection's mark, `-o lo -m mark … -j RETURN`, and marking what an owner sends through `lo`;
//!   * `-i X -j RETURN` in `PREROUTING` together with `-o X -j RETURN` in `OUTPUT` (an excluded interface), and `-i X -j RETURN`
//!     together with a jump of ours for `-i X` (a virtual interface), if they were made together with our chains: such rules are
//!     also written by hand, before ours or behind them;
//!
//! and the tables `inet istio-proxy-nat`, `-mangle`, `-raw` and `-filter` with all that is in them, whoever put it there (upstream
//! empties them, too). Everything else belongs to others: one of these forms alone, rules in chains of other names even if they jump
//! to us, upstream's guard rails (plain `-p tcp -j DROP` rules in `filter`, which could be anybody's).

mod interface;
mod tproxy;

use std::collections::BTreeSet;

use redirect::ruleset::Table;

use crate::expression::{Meaning, jumps_to};
use crate::home::Home;
use crate::snapshot::{ChainState, Name, NfFamily, RuleState, Snapshot, TableState};
use crate::wanted::{Wanted, WantedTable};
use interface::Interfaces;

/// What every name of a chain of ours begins with.
const PREFIX: &[u8] = b"ISTIO_";
/// The chains that iptables calls built-in.
const BUILT_IN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Whether the namespace holds redirection rules of any version and of either nf_tables back end: a chain of ours with a rule
/// in it, a jump to one, or a table of the native back end. Rules of the legacy back end cannot be seen in a snapshot: see
/// [`crate::legacy`].
#[must_use]
pub fn has_rules_of_ours(snapshot: &Snapshot) -> bool {
    native_tables(snapshot).next().is_some()
        || iptables_tables(snapshot).any(|(_, table)| {
            table.chains.iter().any(|chain| {
                let own = is_own_chain(chain);
                chain.rules.iter().any(|rule| own || is_jump_to_us(rule))
            })
        })
}

/// What is ours in one table.
pub(crate) struct OwnTable<'a> {
    pub(crate) home: Home,
    pub(crate) state: &'a TableState,
    /// Chains of ours.
    pub(crate) chains: Vec<&'a ChainState>,
    /// Built-in chains, and for each rule in them whether it is ours.
    pub(crate) built_in: Vec<(&'a ChainState, Vec<bool>)>,
}

/// What is ours in a namespace, and the tables that it is in.
pub(crate) struct Survey<'a> {
    /// Tables of the native back end.
    pub(crate) native: Vec<(Home, &'a TableState)>,
    /// Tables of iptables.
    pub(crate) tables: Vec<OwnTable<'a>>,
}

impl<'a> Survey<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, wanted: &Wanted<'_>) -> Self {
        let tables = iptables_tables(snapshot)
            .map(|(home, state)| {
                let chains: Vec<_> = state.chains.iter().filter(|chain| is_own_chain(chain)).collect();
                let marks = tproxy::marks(&chains, wanted);
                let built_in = built_in(home.table, state, wanted.table(home), &marks);
                OwnTable { home, state, chains, built_in }
            })
            .collect();
        Self { native: native_tables(snapshot).collect(), tables }
    }

    /// What is ours in a table of iptables.
    pub(crate) fn table(&self, home: Home) -> Option<&OwnTable<'a>> {
        self.tables.iter().find(|own| own.home == home)
    }

    /// A table of the native back end.
    pub(crate) fn native(&self, home: Home) -> Option<&'a TableState> {
        self.native.iter().find(|(own, _)| *own == home).map(|(_, state)| *state)
    }

    /// Whether anything of ours is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.native.is_empty()
            && self.tables.iter().all(|table| {
                table.chains.is_empty() && !table.built_in.iter().any(|(_, own)| own.contains(&true))
            })
    }
}

impl<'a> OwnTable<'a> {
    /// Our rules in a built-in chain.
    pub(crate) fn own_rules(&self, chain: &str) -> impl Iterator<Item = &'a RuleState> {
        let found = self.built_in.iter().find(|(state, _)| state.name == chain);
        found.into_iter().flat_map(|(state, own)| {
            state.rules.iter().zip(own).filter(|(_, own)| **own).map(|(rule, _)| rule)
        })
    }

    /// Whether a rule that stays jumps to a chain of ours: one in a chain of somebody else. (In built-in chains every jump to us
    /// is ours.)
    pub(crate) fn is_held(&self, name: &Name) -> bool {
        self.state
            .chains
            .iter()
            .filter(|chain| !is_own_chain(chain))
            .filter(|chain| !self.built_in.iter().any(|(built_in, _)| built_in.name == chain.name))
            .flat_map(|chain| &chain.rules)
            .any(|rule| jumps_to(&rule.expressions) == Some(name.as_bytes()))
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

fn is_own_chain(chain: &ChainState) -> bool {
    is_own_name(chain.name.as_bytes())
}

fn is_own_name(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

fn is_jump_to_us(rule: &RuleState) -> bool {
    jumps_to(&rule.expressions).is_some_and(is_own_name)
}

fn built_in<'a>(
    table: Table,
    state: &'a TableState,
    wanted: Option<&WantedTable<'_>>,
    marks: &[u32],
) -> Vec<(&'a ChainState, Vec<bool>)> {
    let interfaces = Interfaces::of(state);
    let is_built_in = |chain: &&ChainState| BUILT_IN.iter().any(|name| chain.name == *name);
    state
        .chains
        .iter()
        .filter(is_built_in)
        .map(|chain| {
            let wanted = wanted.and_then(|wanted| wanted.chain(chain.name.as_bytes()));
            let wanted = wanted.into_iter().flat_map(|chain| &chain.rules);
            let wanted: BTreeSet<_> = wanted.map(|rule| Meaning::of(&rule.expressions)).collect();
            let own = chain.rules.iter().map(|rule| {
                is_jump_to_us(rule)
                    || wanted.contains(&Meaning::of(&rule.expressions))
                    || (table == Table::Mangle && tproxy::is_ours(chain, rule, marks))
                    || interfaces.are_of(chain, rule)
            });
            (chain, own.collect())
        })
        .collect()
}
