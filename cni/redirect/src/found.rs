// SPDX-License-Identifier: Apache-2.0
//! Rules as somebody found them in a namespace, whoever wrote them: ours, upstream's, another program's. Read from what the
//! tools print ([`save`], [`json`], [`native`]), or built from what the kernel lists (`netfilter`). What this reader does not understand is
//! kept as such, so that a verdict on these rules can say where it stops instead of guessing.
//!
//! | part | what it reads |
//! |---|---|
//! | [`save`] | `iptables-save`, `iptables -S` and restore text |
//! | [`json`] | `nft -j list ruleset` |
//! | [`native`] | `nft list ruleset` |
//!
//! [`capture`] finds out which of them it is. [`ours`] says which rules are ours, [`same`](mod@same) when one is a wanted one, and [`compare`]
//! how all of it differs from what is wanted: planning, diagnosis and validation ask nobody else.

pub mod capture;
pub mod compare;
mod difference;
pub mod json;
pub mod native;
pub mod ours;
pub mod same;
pub mod save;
#[cfg(test)]
mod testing;
mod value;

use std::fmt;

use crate::ruleset::{Dialect, Family, Match};

/// The family of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundFamily {
    /// One family: `ip` or `ip6`.
    One(Family),
    /// One family's tables of legacy iptables.
    Legacy(Family),
    /// Both at once.
    Inet,
}

impl FoundFamily {
    /// True if packets of `family` meet tables of this one.
    #[must_use]
    pub fn covers(self, family: Family) -> bool {
        match self {
            Self::One(one) | Self::Legacy(one) => one == family,
            Self::Inet => true,
        }
    }

    /// The family of all packets that meet its tables; none if there are two.
    #[must_use]
    pub fn only(self) -> Option<Family> {
        match self {
            Self::One(one) | Self::Legacy(one) => Some(one),
            Self::Inet => None,
        }
    }
}

impl fmt::Display for FoundFamily {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::One(Family::V4) => "ip",
            Self::One(Family::V6) => "ip6",
            Self::Legacy(Family::V4) => "legacy ip",
            Self::Legacy(Family::V6) => "legacy ip6",
            Self::Inet => "inet",
        })
    }
}

/// Where the kernel calls a chain from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum FoundHook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

impl FoundHook {
    /// All hooks with the names that iptables gives their chains.
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Prerouting, "PREROUTING"),
        (Self::Input, "INPUT"),
        (Self::Forward, "FORWARD"),
        (Self::Output, "OUTPUT"),
        (Self::Postrouting, "POSTROUTING"),
    ];

    /// The hook of a name, in capitals (iptables) or not (nft).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| name.eq_ignore_ascii_case(known)).map(|(hook, _)| hook)
    }
}

/// Hook attachment of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// From where.
    pub hook: FoundHook,
    /// Chains of one hook run by priority, lower first.
    pub priority: i32,
    /// Its chain type.
    pub kind: ChainKind,
    /// Verdict on a packet at its end.
    pub policy: Policy,
}

/// Packets that a chain sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainKind {
    /// Every packet (`filter`, `route`).
    Every,
    /// The first of a connection (`nat`).
    First,
}

/// Verdict on a packet at the end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Policy {
    Accept,
    Drop,
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Condition {
    /// One that we can judge.
    Known(Match),
    /// One that we cannot, as it was written.
    Unknown(String),
}

impl Condition {
    /// The condition, if we can judge it.
    #[must_use]
    pub fn known(&self) -> Option<&Match> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown(_) => None,
        }
    }
}

/// One thing that a rule does with a packet that meets its conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The packet passes this chain's hook.
    Accept,
    /// The packet is gone.
    Drop,
    /// Back to the calling chain.
    Return,
    /// To another chain and back.
    Jump(String),
    /// To another chain; its end is this chain's.
    Goto(String),
    /// The destination becomes this local port.
    Redirect(u16),
    /// The packet's mark becomes this.
    SetMark(u32),
    /// The packet goes to the socket on this local port, with both addresses kept.
    Tproxy(u16),
    /// The connection's mark becomes the packet's.
    SaveMark,
    /// The packet's mark becomes the connection's.
    RestoreMark,
    /// The conntrack zone becomes this.
    CtZone(u16),
    /// Something that changes nothing (a log line).
    Nothing,
    /// Something that we cannot judge, as it was written.
    Unknown(String),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRule {
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Actions if they hold, in order.
    pub actions: Vec<Action>,
    /// Whose extensions its conditions are: what they say of a packet without a socket differs.
    pub dialect: Dialect,
    /// As it was written, without its chain.
    pub text: String,
    /// Number of packets that met it, if known.
    pub packets: Option<u64>,
    /// Its number, unique in its table and growing with time, if that is known.
    pub handle: Option<u64>,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChain {
    /// Its name.
    pub name: String,
    /// Where the kernel calls it from; none for a chain that only rules lead to.
    pub entry: Option<Entry>,
    /// Its rules, in order.
    pub rules: Vec<FoundRule>,
    /// Its number, unique in its table and growing with time, if that is known.
    pub handle: Option<u64>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTable {
    /// Its family.
    pub family: FoundFamily,
    /// Its name.
    pub name: String,
    /// Its chains, in the order in which they were listed.
    pub chains: Vec<FoundChain>,
}

/// All rules of a namespace, as far as they were listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundRules {
    /// The tables, in the order in which they were listed.
    pub tables: Vec<FoundTable>,
}

impl FoundRules {
    /// The table of that family and name; made if it is not there.
    fn table(&mut self, family: FoundFamily, name: &str) -> &mut FoundTable {
        let at = self.tables.iter().position(|table| table.family == family && table.name == name);
        let at = at.unwrap_or_else(|| {
            self.tables.push(FoundTable { family, name: name.to_owned(), chains: Vec::new() });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }
}

impl FoundTable {
    /// The chain of that name; made if it is not there.
    fn chain(&mut self, name: &str) -> &mut FoundChain {
        let at = self.chains.iter().position(|chain| chain.name == name);
        let at = at.unwrap_or_else(|| {
            self.chains.push(FoundChain {
                name: name.to_owned(),
                entry: None,
                rules: Vec::new(),
                handle: None,
            });
            self.chains.len() - 1
        });
        &mut self.chains[at]
    }
}
