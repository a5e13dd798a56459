// SPDX-License-Identifier: Apache-2.0
//! A packet as netfilter sees it at one hook, reduced to what our rules can ask about.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use crate::ruleset::{Family, Table};

/// The hook at which a packet meets the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// It arrives from an interface (`lo` included).
    Prerouting,
    /// A local process sends it.
    Output,
}

/// Layer 4 of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer4 {
    /// TCP, ports in host order.
    Tcp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// UDP, ports in host order.
    Udp {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// Anything else, by protocol number.
    Other(u8),
}

/// Conntrack state of the packet's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Connection {
    /// First packet: the only one that the nat table sees.
    New,
    /// A later packet.
    Established,
    /// A new connection that belongs to another (an ICMP error, say).
    Related,
    /// Conntrack cannot place it; nat does not see it.
    Invalid,
}

/// A packet at a hook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Where it is looked at.
    pub hook: Hook,
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol and ports.
    pub layer4: Layer4,
    /// Incoming interface ([`Hook::Prerouting`]) or outgoing one ([`Hook::Output`]).
    pub interface: Cow<'static, str>,
    /// The socket's user; `None` for a packet without a local socket.
    pub uid: Option<u32>,
    /// The socket's primary group; `None` for a packet without a local socket.
    pub gid: Option<u32>,
    /// Conntrack state.
    pub connection: Connection,
    /// Firewall mark.
    pub mark: u32,
    /// The connection's mark.
    pub connmark: u32,
}

impl Packet {
    /// The packet's family.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.destination)
    }
}

/// Where a packet ends up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It goes on to where it was addressed.
    Untouched,
    /// Its destination becomes this local port (REDIRECT).
    Redirected {
        /// The local port.
        port: u16,
    },
    /// It is handed to the socket on this local port with both addresses kept (TPROXY).
    Intercepted {
        /// The local port.
        port: u16,
    },
    /// It is dropped.
    Dropped,
}

/// One rule that a packet met on its way: all its conditions held, its counter moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// The table.
    pub table: Table,
    /// The chain's name.
    pub chain: &'static str,
    /// 1-based position in the chain, as `iptables -L --line-numbers` shows it; of a native rule the place in its listing.
    pub position: usize,
    /// The rule without its chain, as [`crate::text::rule`] spells it in the ruleset's dialect.
    pub rule: Arc<str>,
    /// The setting that the rule exists for.
    pub origin: crate::ruleset::Origin,
}

/// Outcome of the rules for a packet, and those that decided it, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Where the packet ends up.
    pub outcome: Outcome,
    /// The local port that REDIRECT wrote into the packet. Where TPROXY chose a socket before, that socket gets it all the same.
    pub rewritten: Option<u16>,
    /// Every rule whose counter moves, in order.
    pub steps: Vec<Step>,
    /// The packet's mark afterwards.
    pub mark: u32,
    /// The connection's mark afterwards.
    pub connmark: u32,
    /// The conntrack zone that the packet was put in; 0 is the default zone.
    pub zone: u16,
}
