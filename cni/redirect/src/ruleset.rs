// SPDX-License-Identifier: Apache-2.0
//! The intermediate form of a pod's rules. It says what is wanted; writers (text, netlink) only encode it and
//! [`crate::verdict`] evaluates it. Nothing here knows how the rules were decided.

mod chains;
mod condition;
mod places;

use std::net::IpAddr;

pub use condition::{Cidr, CtStates, Id, Match, Owner, Port, Protocol, Sense};
pub use places::{BaseChain, BaseKind, Chain, Table};

/// An IP family. iptables rules exist once per family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4, `iptables`, nf_tables family `ip`.
    V4,
    /// IPv6, `ip6tables`, nf_tables family `ip6`.
    V6,
}

/// Families that a rule is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The same rule in every enabled family.
    Both,
    /// A rule of one family only, because it names an address of that family.
    Only(Family),
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

impl Scope {
    /// True if a rule of this scope is written for `family`.
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

/// Action on a packet that meets all conditions of a rule.
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
pub enum RulePlace {
    /// `-A`: behind everything that is there.
    Append,
    /// `-I CHAIN N`: becomes the rule at the 1-based position N.
    Insert(u16),
}

/// Setting that a rule exists for, to explain the rule to a person.
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
    /// The family of the pod's addresses: the other one is left alone.
    OtherFamily,
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
    pub place: RulePlace,
    /// Conditions, in upstream's text order; all must hold.
    pub matches: Vec<Match>,
    /// Action if all hold.
    pub target: Target,
    /// The setting that it exists for.
    pub origin: Origin,
}

/// All rules of a pod, in the order in which upstream's generator emits them.
///
/// In the iptables dialect each family has tables of its own: [`Ruleset::chains`] says what they hold, and a family that is
/// not enabled has nothing.
///
/// In the native dialect there is one set of tables of family `inet`: [`Ruleset::inet_chains`] says what they hold.
///
/// * If `ipv6` is false, the first rule of each base chain sends packets of IPv6 past it ([`Origin::OtherFamily`]): a rule of
///   [`Scope::Both`] would meet them, and what rules mean must not depend on the back end. A rule of [`Scope::Only`] names an
///   address of that family, so no packet of the other meets it; those of IPv6 are there only if `ipv6` is true.
/// * A rule's conditions stand in the order of native text, which is also the order in which the kernel evaluates them. A
///   rule counts behind its conditions and ahead of what it does. Only TPROXY is different: it hands the packet to a socket,
///   marks it, counts and accepts; without a socket the rule breaks off.
/// * [`RulePlace::Insert`] is 1-based here, too; native text counts from 0. What upstream would insert behind the last rule is
///   an append here already, because nft takes no index that does not exist.
/// * A table or a chain exists only if it has a rule, and no rule jumps to a chain that has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    /// Whose conventions it follows.
    pub dialect: Dialect,
    /// True if IPv6 rules are written (IPv4 always is).
    pub ipv6: bool,
    /// Rules, in order of emission.
    pub rules: Vec<Rule>,
}

impl Ruleset {
    /// The same as upstream's generator makes it, which knows no [`Origin::OtherFamily`]: its native rules redirect IPv6 that its
    /// iptables rules leave alone. A dry run is compared with that text.
    #[must_use]
    pub fn as_upstream(mut self) -> Self {
        self.rules.retain(|rule| rule.origin != Origin::OtherFamily);
        self
    }
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
