// SPDX-License-Identifier: Apache-2.0
//! A ruleset by table and chain, each rule with its expressions, ready to be compared with what the kernel holds.

use redirect::ruleset::{Chain, ChainRules, Dialect, Rule, Ruleset};

use crate::encode::{EncodeError, expressions};
use crate::home::{Home, nf_family};
use crate::snapshot::NfFamily;

/// A rule with its expressions.
pub(crate) struct WantedRule<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) expressions: Vec<u8>,
}

/// A chain with its rules in final order.
pub(crate) struct WantedChain<'a> {
    pub(crate) chain: Chain,
    pub(crate) rules: Vec<WantedRule<'a>>,
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
    pub(crate) fn new(ruleset: &'a Ruleset) -> Result<Self, EncodeError> {
        let mut wanted = Self { ruleset, tables: Vec::new() };
        match ruleset.dialect {
            Dialect::Nft => wanted.add(NfFamily::Inet, ruleset.inet_chains())?,
            Dialect::Iptables => {
                for family in ruleset.families() {
                    wanted.add(nf_family(family), ruleset.chains(family))?;
                }
            }
        }
        Ok(wanted)
    }

    fn add(&mut self, family: NfFamily, chains: Vec<ChainRules<'a>>) -> Result<(), EncodeError> {
        for chain in chains {
            let home = Home { family, table: chain.table };
            let wanted = WantedChain { chain: chain.chain, rules: rules(family, &chain.rules)? };
            match self.tables.last_mut() {
                Some(last) if last.home == home => last.chains.push(wanted),
                _ => self.tables.push(WantedTable { home, chains: vec![wanted] }),
            }
        }
        Ok(())
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

fn rules<'a>(family: NfFamily, rules: &[&'a Rule]) -> Result<Vec<WantedRule<'a>>, EncodeError> {
    rules
        .iter()
        .map(|rule| expressions(family, rule).map(|expressions| WantedRule { rule, expressions }))
        .collect()
}
