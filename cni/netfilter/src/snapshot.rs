// SPDX-License-Identifier: Apache-2.0
//! A namespace at one generation: tables, chains, rules. Only data; [`crate::read()`] fills it.

use std::fmt;

use crate::nft::family;

/// A name in the kernel: any bytes without NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// A name from its bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// A family of nf_tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NfFamily {
    /// `inet`: IPv4 and IPv6 at once.
    Inet,
    /// `ip`, where `iptables` lives.
    Ip,
    /// `ip6`, where `ip6tables` lives.
    Ip6,
}

impl NfFamily {
    /// Its number in messages.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Inet => family::INET,
            Self::Ip => family::IPV4,
            Self::Ip6 => family::IPV6,
        }
    }

    /// The family of that number; `None` for those that are not looked at here.
    pub(crate) fn of(number: u8) -> Option<Self> {
        [Self::Inet, Self::Ip, Self::Ip6].into_iter().find(|family| family.number() == number)
    }
}

impl fmt::Display for NfFamily {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet => out.write_str("inet"),
            Self::Ip => out.write_str("ip"),
            Self::Ip6 => out.write_str("ip6"),
        }
    }
}

/// Matches of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A rule as the kernel holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleState {
    /// Its number, unique in its table.
    pub handle: u64,
    /// Its counter, if it has one.
    pub counter: Option<Counter>,
    /// Its expressions as the kernel lists them, every counter set to zero, and the ports of a set without a name in place of its
    /// number.
    pub expressions: Vec<u8>,
    /// Free data that its writer attached (comments, for one).
    pub userdata: Vec<u8>,
}

/// Hook by which the kernel calls a base chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// `NF_INET_*` hook number.
    pub hook: u32,
    /// Priority at the hook; lower runs earlier.
    pub priority: i32,
    /// `filter`, `nat` or `route`.
    pub kind: Name,
    /// Verdict at its end: 1 accept, 0 drop.
    pub policy: u32,
}

/// A chain with its rules, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// Its name.
    pub name: Name,
    /// Its number, unique in its table.
    pub handle: u64,
    /// Set if the kernel calls it.
    pub base: Option<Base>,
    /// Its rules, in order.
    pub rules: Vec<RuleState>,
}

/// A table with its chains, in order of creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    /// Its family.
    pub family: NfFamily,
    /// Its name.
    pub name: Name,
    /// `NFT_TABLE_F_*`; 1 is dormant.
    pub flags: u32,
    /// Its chains, in order of creation.
    pub chains: Vec<ChainState>,
}

/// Everything that nf_tables held in one namespace at one generation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The generation that it was read at; 1 is a namespace that nobody touched.
    pub generation: u32,
    /// Tables, in order of creation.
    pub tables: Vec<TableState>,
}

/// One rule's place and counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCounter<'a> {
    /// Family of the table.
    pub family: NfFamily,
    /// The table.
    pub table: &'a Name,
    /// The chain.
    pub chain: &'a Name,
    /// 1-based position in the chain.
    pub position: usize,
    /// Its count; zero if the rule has no counter.
    pub counter: Counter,
}

impl Snapshot {
    /// Every rule with its counter, in order.
    pub fn counters(&self) -> impl Iterator<Item = RuleCounter<'_>> {
        self.tables.iter().flat_map(|table| {
            table.chains.iter().flat_map(move |chain| {
                chain.rules.iter().enumerate().map(move |(index, rule)| RuleCounter {
                    family: table.family,
                    table: &table.name,
                    chain: &chain.name,
                    position: index + 1,
                    counter: rule.counter.unwrap_or_default(),
                })
            })
        })
    }

    /// The table of that family and name.
    #[must_use]
    pub fn table(&self, family: NfFamily, name: &str) -> Option<&TableState> {
        self.tables.iter().find(|table| table.family == family && table.name == name)
    }
}

impl TableState {
    /// The chain of that name.
    #[must_use]
    pub fn chain(&self, name: &str) -> Option<&ChainState> {
        self.chains.iter().find(|chain| chain.name == name)
    }
}
