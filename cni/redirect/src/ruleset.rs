// SPDX-License-Identifier: Apache-2.0
//! The intermediate form of a pod's rules. It says what is wanted; writers (text, netlink) only encode it and
//! [`crate::verdict`] evaluates it. Nothing here knows how the rules were decided.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// An IP family. iptables rules exist once per family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4, `iptables`, nf_tables family `ip`.
    V4,
    /// IPv6, `ip6tables`, nf_tables family `ip6`.
    V6,
}

/// Which families a rule is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The same rule in every enabled family.
    Both,
    /// A rule of one family only, because it names an address of that family.
    Only(Family),
}

impl Scope {
    /// Whether a rule of this scope is written for `family`.
    #[must_use]
    pub fn covers(self, family: Family) -> bool {
        match self {
            Self::Both => true,
            Self::Only(only) => only == family,
        }
    }
}

/// Whose conventions the rules follow. Upstream has two generators and they differ (names, order of inserts, matches).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `iptables`: tables of both families, chains `ISTIO_*`.
    #[default]
    Iptables,
    /// `native_nftables`: family `inet`, tables `istio-proxy-*`, chains `istio-*`.
    Nft,
}

/// A table, in the order in which upstream's restore text lists them (alphabetical).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Only upstream's guard rails use it.
    Filter,
    /// Marks, TPROXY, drop-invalid.
    Mangle,
    /// REDIRECT.
    Nat,
    /// Conntrack zones of DNS.
    Raw,
}

impl Table {
    /// All tables, in restore order.
    pub const ALL: [Self; 4] = [Self::Filter, Self::Mangle, Self::Nat, Self::Raw];

    /// The name in the tables of family `inet` that the native dialect uses.
    #[must_use]
    pub fn native_name(self) -> &'static str {
        match self {
            Self::Filter => "istio-proxy-filter",
            Self::Mangle => "istio-proxy-mangle",
            Self::Nat => "istio-proxy-nat",
            Self::Raw => "istio-proxy-raw",
        }
    }

    /// The iptables name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Mangle => "mangle",
            Self::Nat => "nat",
            Self::Raw => "raw",
        }
    }
}

/// A chain that our rules use. Built-in ones belong to everybody, the others to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Chain {
    Prerouting,
    Output,
    IstioInbound,
    IstioRedirect,
    IstioInRedirect,
    IstioOutput,
    IstioOutputDns,
    IstioDivert,
    IstioTproxy,
    IstioDrop,
}

impl Chain {
    /// All chains.
    pub const ALL: [Self; 10] = [
        Self::Prerouting,
        Self::Output,
        Self::IstioInbound,
        Self::IstioRedirect,
        Self::IstioInRedirect,
        Self::IstioOutput,
        Self::IstioOutputDns,
        Self::IstioDivert,
        Self::IstioTproxy,
        Self::IstioDrop,
    ];

    /// The chain of an iptables name; `None` for chains that are not ours to use.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|chain| chain.name() == name)
    }

    /// The iptables name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Output => "OUTPUT",
            Self::IstioInbound => "ISTIO_INBOUND",
            Self::IstioRedirect => "ISTIO_REDIRECT",
            Self::IstioInRedirect => "ISTIO_IN_REDIRECT",
            Self::IstioOutput => "ISTIO_OUTPUT",
            Self::IstioOutputDns => "ISTIO_OUTPUT_DNS",
            Self::IstioDivert => "ISTIO_DIVERT",
            Self::IstioTproxy => "ISTIO_TPROXY",
            Self::IstioDrop => "ISTIO_DROP",
        }
    }

    /// The name in the native dialect.
    #[must_use]
    pub fn native_name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Output => "output",
            Self::IstioInbound => "istio-inbound",
            Self::IstioRedirect => "istio-redirect",
            Self::IstioInRedirect => "istio-in-redirect",
            Self::IstioOutput => "istio-output",
            Self::IstioOutputDns => "istio-output-dns",
            Self::IstioDivert => "istio-divert",
            Self::IstioTproxy => "istio-tproxy",
            Self::IstioDrop => "istio-drop",
        }
    }

    /// Whether the kernel calls this chain from a hook.
    #[must_use]
    pub fn is_builtin(self) -> bool {
        matches!(self, Self::Prerouting | Self::Output)
    }
}

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
    /// `-i NAME`; a trailing `+` matches the prefix.
    InInterface(Cow<'static, str>),
    /// `-o NAME`; a trailing `+` matches the prefix.
    OutInterface(Cow<'static, str>),
    /// `-s CIDR`
    Source(Sense, Cidr),
    /// `-d CIDR`
    Destination(Sense, Cidr),
    /// `-p tcp|udp`
    Protocol(Protocol),
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

/// What a rule does with a packet that meets all its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// `-j ACCEPT`
    Accept,
    /// `-j DROP`
    Drop,
    /// `-j RETURN`
    Return,
    /// `-j CHAIN`
    Jump(Chain),
    /// `-j REDIRECT --to-ports PORT`. Upstream spells the option `--to-port` for UDP DNS; text follows it.
    Redirect {
        /// The local port.
        port: u16,
    },
    /// `-j MARK --set-mark`, mask 0xffffffff
    SetMark(u32),
    /// `-j TPROXY --tproxy-mark MARK/0xffffffff --on-port PORT`
    Tproxy {
        /// Firewall mark that policy routing looks for.
        mark: u32,
        /// The local port.
        port: u16,
    },
    /// `-j CONNMARK --save-mark`
    SaveMark,
    /// `-j CONNMARK --restore-mark`
    RestoreMark,
    /// `-j CT --zone`
    CtZone(u16),
}

/// Where a rule goes in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// `-A`: behind everything that is there.
    Append,
    /// `-I CHAIN N`: becomes the rule at the 1-based position N.
    Insert(u16),
}

/// Which setting a rule exists for, so that a person can be told why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Part of every ruleset.
    Always,
    /// `excludeInterfaces`
    ExcludeInterfaces,
    /// `reroute-virtual-interfaces` (formerly `kubevirtInterfaces`)
    VirtualInterfaces,
    /// `INVALID_DROP`
    DropInvalid,
    /// `includeInboundPorts`
    IncludeInboundPorts,
    /// `excludeInboundPorts`
    ExcludeInboundPorts,
    /// `includeOutboundPorts`
    IncludeOutboundPorts,
    /// `excludeOutboundPorts`
    ExcludeOutboundPorts,
    /// `includeOutboundIPRanges`
    IncludeOutboundRanges,
    /// `excludeOutboundIPRanges`
    ExcludeOutboundRanges,
    /// `interceptionMode: TPROXY`
    Tproxy,
    /// The proxy's user.
    ProxyUid,
    /// The proxy's group.
    ProxyGid,
    /// `ISTIO_OUTBOUND_OWNER_GROUPS` and its exclusion
    OwnerGroups,
    /// `ISTIO_META_DNS_CAPTURE`
    Dns,
    /// The loopback CIDR
    Loopback,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The table.
    pub table: Table,
    /// The chain.
    pub chain: Chain,
    /// The families that it is written for.
    pub scope: Scope,
    /// Position in the chain.
    pub place: Place,
    /// Conditions, in upstream's text order; all must hold.
    pub matches: Vec<Match>,
    /// What then happens.
    pub target: Target,
    /// The setting that it exists for.
    pub origin: Origin,
}

/// All rules of a pod, in the order in which upstream's generator emits them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// Whose conventions it follows.
    pub dialect: Dialect,
    /// Whether rules of IPv6 are written (IPv4 always is).
    pub ipv6: bool,
    /// Rules, in order of emission.
    pub rules: Vec<Rule>,
}

/// One chain with its rules in final order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRules<'a> {
    /// The table.
    pub table: Table,
    /// The chain.
    pub chain: Chain,
    /// The rules, inserts resolved.
    pub rules: Vec<&'a Rule>,
}

impl Ruleset {
    /// The enabled families.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        [Family::V4, Family::V6].into_iter().take(if self.ipv6 { 2 } else { 1 })
    }

    /// Whether rules of `family` are written.
    #[must_use]
    pub fn enables(&self, family: Family) -> bool {
        family == Family::V4 || self.ipv6
    }

    /// The rules of one family and table, in order of emission. A family that is not enabled has none.
    pub fn rules_of(&self, family: Family, table: Table) -> impl Iterator<Item = &Rule> {
        let enabled = self.enables(family);
        self.rules.iter().filter(move |rule| enabled && rule.table == table && rule.scope.covers(family))
    }

    /// The chains of one family with their rules as the kernel holds them afterwards: tables in restore order, in each
    /// the chains in order of first mention (as a rule's chain, then as a jump target without rules), inserts resolved.
    /// A family that is not enabled has none.
    #[must_use]
    pub fn chains(&self, family: Family) -> Vec<ChainRules<'_>> {
        let mut chains: Vec<ChainRules<'_>> = Vec::new();
        if !self.enables(family) {
            return chains;
        }
        for table in Table::ALL {
            let start = chains.len();
            for rule in self.rules_of(family, table) {
                let found = chains[start..].iter_mut().find(|at| at.chain == rule.chain);
                match (found, rule.place) {
                    (None, _) => chains.push(ChainRules { table, chain: rule.chain, rules: vec![rule] }),
                    (Some(at), Place::Append) => at.rules.push(rule),
                    (Some(at), Place::Insert(position)) => {
                        let index = usize::from(position).saturating_sub(1).min(at.rules.len());
                        at.rules.insert(index, rule);
                    }
                }
            }
            for rule in self.rules_of(family, table) {
                if let Target::Jump(chain) = rule.target
                    && !chains[start..].iter().any(|at| at.chain == chain)
                {
                    chains.push(ChainRules { table, chain, rules: Vec::new() });
                }
            }
        }
        chains
    }
}
