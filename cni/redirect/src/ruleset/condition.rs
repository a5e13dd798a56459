// SPDX-License-Identifier: Apache-2.0
//! What a rule asks of a packet.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use super::Family;

/// Whether a match must hold or must not (`!`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sense {
    /// Must hold.
    Is,
    /// Must not hold (`!`).
    Not,
}

/// An address prefix as the user wrote it: host bits are kept, as upstream prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
        if self.address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.length)
    }
}

/// A layer 4 protocol that our rules name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// The name that both dialects use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A port of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Port {
    /// One port.
    One(u16),
    /// `low:high`, both included.
    Range(u16, u16),
    /// A token that validation lets through and the kernel cannot hold (`*` in an exclusion list, a service name). Text
    /// shows it as upstream does; every other writer rejects it by name.
    Verbatim(String),
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

/// Who owns the socket that sent a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// `--uid-owner`
    Uid(Id),
    /// `--gid-owner`: the socket's primary group (its `f_cred` fsgid); supplementary groups do not count.
    Gid(Id),
}

/// Connection states that our rules name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CtStates {
    /// `--ctstate INVALID`
    Invalid,
    /// `--ctstate RELATED,ESTABLISHED`
    RelatedEstablished,
}

/// One condition of a rule. A rule's conditions are kept in upstream's text order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Match {
    /// `-i NAME`, `iifname NAME`; a trailing `+` (native: `*`) matches the prefix.
    InInterface(Cow<'static, str>),
    /// `-o NAME`, `oifname NAME`; a trailing `+` (native: `*`) matches the prefix.
    OutInterface(Cow<'static, str>),
    /// `-s CIDR`
    Source(Sense, Cidr),
    /// `-d CIDR`
    Destination(Sense, Cidr),
    /// `-p tcp|udp`, `meta l4proto tcp|udp`
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
