// SPDX-License-Identifier: Apache-2.0
//! A ruleset by table and chain, each rule with its expressions, ready to be compared with what the kernel holds.

use redirect::ruleset::{Chain, Dialect, Family, Match, Rule, Ruleset, Table, Target};

use crate::encode::{EncodeError, expressions};
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

/// A table with its chains, in order of first mention.
pub(crate) struct WantedTable<'a> {
    pub(crate) family: Family,
    pub(crate) table: Table,
    pub(crate) chains: Vec<WantedChain<'a>>,
}

/// Everything that is wanted.
pub(crate) struct Wanted<'a> {
    pub(crate) ruleset: &'a Ruleset,
    pub(crate) tables: Vec<WantedTable<'a>>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(ruleset: &'a Ruleset) -> Result<Self, EncodeError> {
        if ruleset.dialect != Dialect::Iptables {
            return Err(EncodeError::Dialect);
        }
        let mut tables: Vec<WantedTable<'a>> = Vec::new();
        for family in ruleset.families() {
            for chain in ruleset.chains(family) {
                let wanted = WantedChain { chain: chain.chain, rules: rules(family, &chain.rules)? };
                match tables.last_mut() {
                    Some(last) if last.family == family && last.table == chain.table => {
                        last.chains.push(wanted);
                    }
                    _ => tables.push(WantedTable { family, table: chain.table, chains: vec![wanted] }),
                }
            }
        }
        Ok(Self { ruleset, tables })
    }

    pub(crate) fn table(&self, family: Family, table: Table) -> Option<&WantedTable<'a>> {
        self.tables.iter().find(|wanted| wanted.family == family && wanted.table == table)
    }

    /// Every mark that a rule sets or asks for.
    pub(crate) fn marks(&self) -> impl Iterator<Item = u32> {
        self.ruleset.rules.iter().flat_map(|rule| {
            let set = match rule.target {
                Target::SetMark(mark) | Target::Tproxy { mark, .. } => Some(mark),
                _ => None,
            };
            let asked = rule.matches.iter().filter_map(|condition| match condition {
                Match::Mark(_, mark) | Match::ConnMark(mark) => Some(*mark),
                _ => None,
            });
            asked.chain(set)
        })
    }
}

impl<'a> WantedTable<'a> {
    pub(crate) fn chain(&self, name: &[u8]) -> Option<&WantedChain<'a>> {
        self.chains.iter().find(|chain| chain.chain.name().as_bytes() == name)
    }
}

fn rules<'a>(family: Family, rules: &[&'a Rule]) -> Result<Vec<WantedRule<'a>>, EncodeError> {
    rules
        .iter()
        .map(|rule| expressions(family, rule).map(|expressions| WantedRule { rule, expressions }))
        .collect()
}

/// Where iptables keeps a family.
pub(crate) fn nf_family(family: Family) -> NfFamily {
    match family {
        Family::V4 => NfFamily::Ip,
        Family::V6 => NfFamily::Ip6,
    }
}
