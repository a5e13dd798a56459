// SPDX-License-Identifier: Apache-2.0
//! A ruleset by table and chain.

use redirect::ruleset::{Chain, ChainRules, Dialect, Rule, Ruleset};

use crate::home::Home;
use crate::snapshot::NfFamily;

/// A chain with its rules in final order.
pub(crate) struct WantedChain<'a> {
    pub(crate) chain: Chain,
    pub(crate) rules: Vec<&'a Rule>,
}

/// A table with its chains, in the order in which they are made.
pub(crate) struct WantedTable<'a> {
    pub(crate) home: Home,
    pub(crate) chains: Vec<WantedChain<'a>>,
}

/// Everything that is wanted.
pub(crate) struct Wanted<'a> {
    pub(crate) ruleset: &'a Ruleset,
    pub(crate) tables: Vec<WantedTable<'a>>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(ruleset: &'a Ruleset) -> Self {
        let mut wanted = Self { ruleset, tables: Vec::new() };
        match ruleset.dialect {
            Dialect::Nft => wanted.add(NfFamily::Inet, ruleset.inet_chains()),
            Dialect::Iptables => {
                for family in ruleset.families() {
                    wanted.add(family.into(), ruleset.chains(family));
                }
            }
        }
        wanted
    }

    fn add(&mut self, family: NfFamily, chains: Vec<ChainRules<'a>>) {
        for chain in chains {
            let home = Home { family, table: chain.table };
            let wanted = WantedChain { chain: chain.chain, rules: chain.rules };
            match self.tables.last_mut() {
                Some(last) if last.home == home => last.chains.push(wanted),
                _ => self.tables.push(WantedTable { home, chains: vec![wanted] }),
            }
        }
    }

    pub(crate) fn table(&self, home: Home) -> Option<&WantedTable<'a>> {
        self.tables.iter().find(|wanted| wanted.home == home)
    }
}

impl<'a> WantedTable<'a> {
    pub(crate) fn chain(&self, name: &[u8]) -> Option<&WantedChain<'a>> {
        self.chains.iter().find(|chain| self.home.chain_name(chain.chain).as_bytes() == name)
    }
}
