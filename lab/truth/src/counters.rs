// SPDX-License-Identifier: Apache-2.0
//! The rules of a namespace, each with its counter, as the kernel lists them.

mod list;

use std::fmt;

use netfilter::Backend;
use netfilter::snapshot::NfFamily;
use redirect::found::{FoundFamily, FoundTable};
use redirect::ruleset::{ChainRules, Dialect, Family, Ruleset};
use redirect::text;

/// Where a rule is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The family of its table.
    pub family: NfFamily,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// 1-based position.
    pub position: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {} {}", self.family, self.table, self.chain, self.position)
    }
}

/// A rule that must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Where.
    pub place: Place,
    /// As a person reads it.
    pub text: String,
}

/// All rules of a ruleset, in no particular order.
#[must_use]
pub fn known(rules: &Ruleset) -> Vec<Known> {
    match rules.dialect {
        Dialect::Iptables => {
            let of = |family: Family| (family.into(), rules.chains(family));
            rules
                .families()
                .map(of)
                .flat_map(|(family, chains)| listed(rules.dialect, family, &chains))
                .collect()
        }
        Dialect::Nft => listed(rules.dialect, NfFamily::Inet, &rules.inet_chains()),
    }
}

fn listed(dialect: Dialect, family: NfFamily, chains: &[ChainRules<'_>]) -> Vec<Known> {
    let each = |at: &ChainRules<'_>| {
        let (table, chain) = (at.table.name_in(dialect), at.chain.name_in(dialect));
        let rules = at.rules.iter().enumerate().map(move |(index, rule)| Known {
            place: Place { family, table: table.to_owned(), chain: chain.to_owned(), position: index + 1 },
            text: text::rule(dialect, rule),
        });
        rules.collect::<Vec<_>>()
    };
    chains.iter().flat_map(each).collect()
}

/// The family of the tables that packets of a family meet.
#[must_use]
pub fn met_by(dialect: Dialect, family: Family) -> NfFamily {
    match dialect {
        Dialect::Iptables => family.into(),
        Dialect::Nft => NfFamily::Inet,
    }
}

/// Counters of the calling thread's namespace, read again and again.
#[derive(Debug)]
pub(crate) enum Live {
    NfTables(list::List),
    Legacy,
}

impl Live {
    pub(crate) fn open(backend: Backend) -> anyhow::Result<Self> {
        match backend {
            Backend::NftCompat | Backend::Nft | Backend::IptablesNft => {
                Ok(Self::NfTables(list::List::open()?))
            }
            Backend::IptablesLegacy => Ok(Self::Legacy),
        }
    }

    /// Packets by rule of the tables that a packet of this family meets, in the order of [`read`].
    pub(crate) fn packets(&mut self, dialect: Dialect, family: Family) -> anyhow::Result<Vec<u64>> {
        match self {
            Self::NfTables(list) => list.packets(number(met_by(dialect, family))),
            Self::Legacy => {
                let tables = netfilter::legacy::read_family(family)?;
                let rules = tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
                Ok(rules.map(|rule| rule.packets.unwrap_or_default()).collect())
            }
        }
    }
}

/// `NFPROTO_INET`, `NFPROTO_IPV4`, `NFPROTO_IPV6`
fn number(family: NfFamily) -> u8 {
    match family {
        NfFamily::Inet => 1,
        NfFamily::Ip => 2,
        NfFamily::Ip6 => 10,
    }
}

/// Every rule of the calling thread's namespace, with the packets that it counted.
pub fn read(backend: Backend) -> anyhow::Result<Vec<(Place, u64)>> {
    match backend {
        Backend::NftCompat | Backend::Nft | Backend::IptablesNft => {
            let snapshot = netfilter::read()?;
            let each = |rule: netfilter::snapshot::RuleCounter<'_>| {
                let place = Place {
                    family: rule.family,
                    table: rule.table.to_string(),
                    chain: rule.chain.to_string(),
                    position: rule.position,
                };
                (place, rule.counter.packets)
            };
            Ok(snapshot.counters().map(each).collect())
        }
        Backend::IptablesLegacy => Ok(netfilter::legacy::read()?.tables.iter().flat_map(legacy).collect()),
    }
}

/// The rules of a legacy table.
fn legacy(table: &FoundTable) -> Vec<(Place, u64)> {
    let FoundFamily::Legacy(family) = table.family else { return Vec::new() };
    let mut rules = Vec::new();
    for chain in &table.chains {
        for (index, rule) in chain.rules.iter().enumerate() {
            let place = Place {
                family: family.into(),
                table: table.name.clone(),
                chain: chain.name.clone(),
                position: index + 1,
            };
            rules.push((place, rule.packets.unwrap_or_default()));
        }
    }
    rules
}
