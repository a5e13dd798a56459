// SPDX-License-Identifier: Apache-2.0
//! Conditions of a rule.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::{Dialect, Family};

/// Sense of a match: plain or inverted (`!`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sense {
    /// Must hold.
    Is,
    /// Must not hold (`!`).
    Not,
}

/// An address prefix as the user wrote it: host bits are kept, as upstream prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cidr {
    /// The address, host bits included.
    pub address: IpAddr,
    /// Prefix length in bits, at most 32 or 128.
    pub length: u8,
}

impl Cidr {
    /// The family of the address.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.address)
    }

    /// The same prefix without host bits.
    #[must_use]
    pub fn masked(self) -> Self {
        let length = u32::from(self.length);
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
        };
        Self { address, ..self }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.length)
    }
}

/// A layer 4 protocol of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Protocol {
    Tcp,
    Udp,
    /// By its number. Foreign rules alone name such a protocol.
    Other(u8),
}

impl Protocol {
    /// The protocol of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            6 => Self::Tcp,
            17 => Self::Udp,
            other => Self::Other(other),
        }
    }

    /// The protocol of a name or number that iptables or nft print.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(_, known)| *known == name).map(|(protocol, _)| *protocol);
        named.or_else(|| name.parse().ok().map(Self::from_number))
    }

    /// The first name of a protocol is the one that is written.
    const NAMES: [(Self, &'static str); 12] = [
        (Self::Tcp, "tcp"),
        (Self::Udp, "udp"),
        (Self::Other(1), "icmp"),
        (Self::Other(58), "ipv6-icmp"),
        (Self::Other(58), "icmpv6"),
        (Self::Other(132), "sctp"),
        (Self::Other(2), "igmp"),
        (Self::Other(33), "dccp"),
        (Self::Other(47), "gre"),
        (Self::Other(50), "esp"),
        (Self::Other(51), "ah"),
        (Self::Other(136), "udplite"),
    ];
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Self::NAMES.iter().find(|(known, _)| known == self), self) {
            (Some((_, name)), _) => out.write_str(name),
            (None, Self::Other(number)) => write!(out, "{number}"),
            (None, Self::Tcp | Self::Udp) => Ok(()),
        }
    }
}

/// A port of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Port {
    /// One port.
    One(u16),
    /// `low:high`, both included.
    Range(u16, u16),
    /// A token that iptables' text shows as it was given: half a range (`low:`, `:high`), or what validation lets through and the kernel cannot
    /// hold (`*` in an exclusion list, a service name), which every other writer rejects by name.
    Verbatim(String),
}

impl Port {
    /// The lowest and the highest port; none of what the kernel cannot hold.
    #[must_use]
    pub fn bounds(&self) -> Option<(u16, u16)> {
        let end = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
        match self {
            Self::One(port) => Some((*port, *port)),
            Self::Range(low, high) => Some((*low, *high)),
            Self::Verbatim(token) => {
                let (low, high) = token.split_once(':')?;
                Some((end(low, 0)?, end(high, u16::MAX)?))
            }
        }
        .filter(|(low, high)| low <= high)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(port) => write!(out, "{port}"),
            Self::Range(low, high) => write!(out, "{low}:{high}"),
            Self::Verbatim(token) => out.write_str(token),
        }
    }
}

/// A user or group of a rule: a number, or a name that only the side where it came from can resolve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Id {
    /// uid or gid, as seen in the user namespace that owns the network namespace.
    Number(u32),
    /// A name of the user or group database.
    Name(String),
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(id) => write!(out, "{id}"),
            Self::Name(name) => out.write_str(name),
        }
    }
}

/// Owner of the socket that sent a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// `--uid-owner`
    Uid(Id),
    /// `--gid-owner`: the socket's primary group (its `f_cred` fsgid); supplementary groups do not count.
    Gid(Id),
}

/// A set of connection states: a packet is in exactly one. Bits as nf_tables has them (`NF_CT_STATE_BIT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CtStates(u32);

impl CtStates {
    /// `--ctstate INVALID`
    pub const INVALID: Self = Self(1);
    /// `--ctstate ESTABLISHED`
    pub const ESTABLISHED: Self = Self(2);
    /// `--ctstate RELATED`
    pub const RELATED: Self = Self(4);
    /// `--ctstate RELATED,ESTABLISHED`
    pub const RELATED_ESTABLISHED: Self = Self(6);
    /// `--ctstate NEW`
    pub const NEW: Self = Self(8);
    /// `--ctstate UNTRACKED`
    pub const UNTRACKED: Self = Self(64);
    const ALL: u32 = 79;
    /// In the order in which upstream writes them.
    const NAMES: [(Self, &'static str); 5] = [
        (Self::INVALID, "invalid"),
        (Self::NEW, "new"),
        (Self::RELATED, "related"),
        (Self::ESTABLISHED, "established"),
        (Self::UNTRACKED, "untracked"),
    ];

    /// The states of these bits; `None` if a bit is no state.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits & !Self::ALL == 0).then_some(Self(bits))
    }

    /// The states of comma-separated names, in capitals (iptables) or not (nft).
    #[must_use]
    pub fn from_names(names: &str) -> Option<Self> {
        let state = |name: &str| {
            let known = Self::NAMES.iter().find(|(_, known)| name.trim().eq_ignore_ascii_case(known));
            known.map(|(state, _)| state.0)
        };
        names.split(',').try_fold(0, |bits, name| Some(bits | state(name)?)).map(Self)
    }

    /// Bits of the states.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// All other states.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self(!self.0 & Self::ALL)
    }

    /// True if all states of `other` are among these.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Names as nft spells them, comma-separated.
impl fmt::Display for CtStates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(state, _)| self.contains(*state)).map(|(_, name)| *name);
        out.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// One condition of a rule. A rule's conditions are kept in upstream's text order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// `-i NAME`, `iifname NAME`; a trailing `+` (native: `*`) matches the prefix.
    InInterface(Cow<'static, str>),
    /// `-o NAME`, `oifname NAME`; a trailing `+` (native: `*`) matches the prefix.
    OutInterface(Cow<'static, str>),
    /// `meta nfproto ipv4|ipv6`. Only in the native dialect: iptables has tables of each family.
    Family(Family),
    /// `-s CIDR`
    Source(Sense, Cidr),
    /// `-d CIDR`
    Destination(Sense, Cidr),
    /// `-p PROTOCOL`, `meta l4proto PROTOCOL`
    Protocol(Protocol),
    /// The same condition where native text leaves it to the port behind it (`tcp dport 80`). Only in the native dialect.
    PortProtocol(Protocol),
    /// `--sport`
    SourcePort(Sense, Port),
    /// `--dport`
    DestinationPort(Sense, Port),
    /// `-m multiport --dports A,B`
    DestinationPorts(Sense, Vec<u16>),
    /// `-m owner`
    Owner(Sense, Owner),
    /// `-m conntrack --ctstate`
    Conntrack(CtStates),
    /// `-m mark --mark`, mask 0xffffffff
    Mark(Sense, u32),
    /// `-m connmark --mark`, mask 0xffffffff
    ConnMark(u32),
}

impl Match {
    /// The form in which every listing of a table has it, whatever its spelling; none if it always holds there. `only` is the table's family
    /// unless it has both: there, an empty prefix still asks for the family of its address.
    #[must_use]
    pub fn normal(&self, dialect: Dialect, only: Option<Family>) -> Option<Self> {
        let port = |port: &Port| match port.bounds() {
            Some((low, high)) if low == high => Port::One(low),
            Some((low, high)) => Port::Range(low, high),
            None => port.clone(),
        };
        Some(match self {
            Self::Family(family) if only == Some(*family) => return None,
            Self::Source(Sense::Is, any @ Cidr { length: 0, .. })
            | Self::Destination(Sense::Is, any @ Cidr { length: 0, .. })
                if only != Some(any.family().other()) =>
            {
                return Self::Family(any.family()).normal(dialect, only);
            }
            // iptables lists no option for it. The native expression asks for a whole header.
            Self::SourcePort(Sense::Is, any) | Self::DestinationPort(Sense::Is, any)
                if dialect == Dialect::Iptables && any.bounds() == Some((0, u16::MAX)) =>
            {
                return None;
            }
            Self::InInterface(name) | Self::OutInterface(name) if name == any_interface(dialect) => {
                return None;
            }
            Self::PortProtocol(protocol) => Self::Protocol(*protocol),
            Self::Source(sense, cidr) => Self::Source(*sense, cidr.masked()),
            Self::Destination(sense, cidr) => Self::Destination(*sense, cidr.masked()),
            Self::SourcePort(sense, wanted) => Self::SourcePort(*sense, port(wanted)),
            Self::DestinationPort(sense, wanted) => Self::DestinationPort(*sense, port(wanted)),
            Self::DestinationPorts(sense, ports) => {
                let mut ports = ports.clone();
                ports.sort_unstable();
                ports.dedup();
                match *ports {
                    [only] => Self::DestinationPort(*sense, Port::One(only)),
                    _ => Self::DestinationPorts(*sense, ports),
                }
            }
            other => other.clone(),
        })
    }
}

/// Name that stands for every interface.
fn any_interface(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Iptables => "+",
        Dialect::Nft => "*",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: (Dialect, Option<Family>) = (Dialect::Iptables, Some(Family::V4));
    const V6: (Dialect, Option<Family>) = (Dialect::Iptables, Some(Family::V6));
    const INET: (Dialect, Option<Family>) = (Dialect::Nft, None);

    fn normal(condition: &Match, (dialect, only): (Dialect, Option<Family>)) -> Option<Match> {
        condition.normal(dialect, only)
    }

    #[test]
    fn any_interface_is_no_condition_in_its_own_dialect() {
        for (name, table, other) in [("+", V4, INET), ("*", INET, V4)] {
            for condition in [Match::InInterface(name.into()), Match::OutInterface(name.into())] {
                assert_eq!(normal(&condition, table), None);
                assert_eq!(normal(&condition, other), Some(condition));
            }
        }
    }

    #[test]
    fn an_empty_prefix_asks_for_its_family_where_a_table_has_both() {
        for (text, family, only, foreign) in [("0.0.0.0", Family::V4, V4, V6), ("::", Family::V6, V6, V4)] {
            let any = Cidr { address: text.parse().unwrap(), length: 0 };
            for condition in [Match::Source(Sense::Is, any), Match::Destination(Sense::Is, any)] {
                assert_eq!(normal(&condition, INET), Some(Match::Family(family)));
                assert_eq!(normal(&condition, only), None);
                assert_eq!(normal(&condition, foreign), Some(condition), "it never holds");
            }
            assert_eq!(normal(&Match::Family(family), INET), Some(Match::Family(family)));
            assert_eq!(normal(&Match::Family(family), only), None);
        }
    }

    #[test]
    fn spellings_of_one_condition_are_one() {
        let cidr = |text: &str, length| Cidr { address: text.parse().unwrap(), length };
        let pairs = [
            (Match::Source(Sense::Not, cidr("10.1.2.3", 8)), Match::Source(Sense::Not, cidr("10.0.0.0", 8))),
            // nft stores a set of one port as that port.
            (
                Match::DestinationPorts(Sense::Not, vec![53, 53]),
                Match::DestinationPort(Sense::Not, Port::One(53)),
            ),
            (
                Match::Destination(Sense::Is, cidr("2001:db8::1", 32)),
                Match::Destination(Sense::Is, cidr("2001:db8::", 32)),
            ),
            (Match::SourcePort(Sense::Is, Port::Range(9, 9)), Match::SourcePort(Sense::Is, Port::One(9))),
            (
                Match::SourcePort(Sense::Not, Port::Verbatim(":1023".into())),
                Match::SourcePort(Sense::Not, Port::Range(0, 1023)),
            ),
            (Match::PortProtocol(Protocol::Udp), Match::Protocol(Protocol::Udp)),
            (
                Match::DestinationPorts(Sense::Is, vec![7, 5, 7]),
                Match::DestinationPorts(Sense::Is, vec![5, 7]),
            ),
        ];
        for (one, other) in pairs {
            assert_ne!(one, other);
            for table in [V4, INET] {
                assert_eq!(normal(&one, table), Some(other.clone()));
                assert_eq!(normal(&other, table), Some(other.clone()));
            }
        }
    }

    #[test]
    fn a_condition_that_always_holds_is_none() {
        let any = Cidr { address: "10.0.0.1".parse().unwrap(), length: 0 };
        assert_eq!(any.masked().to_string(), "0.0.0.0/0");
        for always in [
            Match::Source(Sense::Is, any),
            Match::DestinationPort(Sense::Is, Port::Range(0, 65535)),
            Match::DestinationPort(Sense::Is, Port::Verbatim(":".into())),
            Match::InInterface("+".into()),
        ] {
            assert_eq!(normal(&always, V4), None, "{always:?}");
        }
        assert!(normal(&Match::Source(Sense::Not, any), V4).is_some(), "it never holds");
        let ports = Match::DestinationPort(Sense::Is, Port::Verbatim(":".into()));
        let whole = Match::DestinationPort(Sense::Is, Port::Range(0, 65535));
        assert_eq!(normal(&ports, INET), Some(whole), "a fragment has no ports");
    }
}
