// SPDX-License-Identifier: Apache-2.0
//! Everything that rules are generated from, with the CNI's constants as defaults. [`crate::parameters::Redirect`] fills it
//! for a pod, a command line for whoever calls `istio-iptables`.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::host::LOOPBACK_V4;
use crate::list::Selection;
use crate::ruleset::{Cidr, Dialect, Id, Port};

/// Capture mode of inbound traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// NAT: the proxy asks conntrack for the original destination.
    #[default]
    Redirect,
    /// Policy routing: both addresses are kept.
    Tproxy,
}

impl Mode {
    /// Its name in annotations and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redirect => "REDIRECT",
            Self::Tproxy => "TPROXY",
        }
    }
}

/// DNS traffic that goes to the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Dns {
    /// None.
    #[default]
    Off,
    /// All of port 53.
    All,
    /// Port 53 of these resolvers. Without any it is the same as [`Dns::Off`].
    Servers {
        /// IPv4 resolvers, in order.
        v4: Vec<Ipv4Addr>,
        /// IPv6 resolvers, in order.
        v6: Vec<Ipv6Addr>,
    },
}

impl Dns {
    /// True if there is anything to capture.
    #[must_use]
    pub fn is_on(&self) -> bool {
        match self {
            Self::Off => false,
            Self::All => true,
            Self::Servers { v4, v6 } => !v4.is_empty() || !v6.is_empty(),
        }
    }
}

/// The user and the group that the proxy runs as where nothing else is said.
pub const PROXY_ID: u32 = 1337;

/// Where the agent listens for captured DNS.
pub const DNS_PORT: u16 = 15053;

/// The mark of the proxy's own packets to the pod's address, so that its inbound side takes them (TPROXY).
pub const OUTBOUND_MARK: u32 = 1338;

/// Input of rule generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whose conventions the rules follow; the back end decides it.
    pub dialect: Dialect,
    /// True if IPv6 rules are written.
    pub ipv6: bool,
    /// Capture mode of inbound traffic.
    pub mode: Mode,
    /// Where the proxy takes outbound traffic.
    pub proxy_port: u16,
    /// Where the proxy takes inbound traffic.
    pub inbound_capture_port: u16,
    /// Where the proxy ends tunnels; never captured.
    pub inbound_tunnel_port: u16,
    /// The proxy's users: their traffic is not captured.
    pub proxy_uids: Vec<Id>,
    /// The proxy's groups: likewise.
    pub proxy_gids: Vec<Id>,
    /// Inbound ports that are captured; `None` leaves inbound traffic alone.
    pub inbound_ports_include: Option<Selection<Port>>,
    /// Inbound ports that are not; counts only beside [`Selection::All`].
    pub inbound_ports_exclude: Vec<Port>,
    /// Interfaces whose traffic is left alone.
    pub exclude_interfaces: Vec<Cow<'static, str>>,
    /// Interfaces whose inbound traffic is outbound traffic of a guest.
    pub virtual_interfaces: Vec<Cow<'static, str>>,
    /// Outbound destinations that are captured.
    pub outbound_ranges_include: Selection<Cidr>,
    /// Outbound destinations that are not.
    pub outbound_ranges_exclude: Vec<Cidr>,
    /// Outbound ports that are captured, whatever the destination.
    pub outbound_ports_include: Vec<Port>,
    /// Outbound ports that are not.
    pub outbound_ports_exclude: Vec<Port>,
    /// Groups whose outbound traffic is captured.
    pub owner_groups_include: Selection<Id>,
    /// Groups whose outbound traffic is not; counts only beside [`Selection::All`].
    pub owner_groups_exclude: Vec<Id>,
    /// Loopback prefix in IPv4 rules.
    pub loopback: Cidr,
    /// DNS traffic that goes to the agent.
    pub dns: Dns,
    /// True if packets of conntrack state INVALID are dropped.
    pub drop_invalid: bool,
    /// The mark that sends a packet to the proxy (TPROXY).
    pub tproxy_mark: u32,
    /// The routing table of marked packets (TPROXY); no rule names it, policy routes do.
    pub tproxy_route_table: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dialect: Dialect::Iptables,
            ipv6: false,
            mode: Mode::Redirect,
            proxy_port: 15001,
            inbound_capture_port: 15006,
            inbound_tunnel_port: 15008,
            proxy_uids: vec![Id::Number(PROXY_ID)],
            proxy_gids: vec![Id::Number(PROXY_ID)],
            inbound_ports_include: None,
            inbound_ports_exclude: Vec::new(),
            exclude_interfaces: Vec::new(),
            virtual_interfaces: Vec::new(),
            outbound_ranges_include: Selection::List(Vec::new()),
            outbound_ranges_exclude: Vec::new(),
            outbound_ports_include: Vec::new(),
            outbound_ports_exclude: Vec::new(),
            owner_groups_include: Selection::All,
            owner_groups_exclude: Vec::new(),
            loopback: LOOPBACK_V4,
            dns: Dns::Off,
            drop_invalid: false,
            tproxy_mark: 1337,
            tproxy_route_table: 133,
        }
    }
}

impl Config {
    /// The same in another dialect, with prefixes of interfaces as that spells them: `eth+`, a prefix to iptables, would be a whole name to
    /// nft.
    #[must_use]
    pub fn in_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        if dialect == Dialect::Nft {
            for name in self.exclude_interfaces.iter_mut().chain(&mut self.virtual_interfaces) {
                if let Some(prefix) = name.strip_suffix('+') {
                    *name = format!("{prefix}*").into();
                }
            }
        }
        self
    }

    /// True if marked packets need policy routes: only if TPROXY captures anything.
    #[must_use]
    pub fn needs_policy_routes(&self) -> bool {
        match self.mode {
            Mode::Tproxy => self.inbound_ports_include.is_some(),
            Mode::Redirect => false,
        }
    }
}

/// A configuration that no rules can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The loopback prefix is not of IPv4.
    #[error("the IPv4 loopback prefix is {0}")]
    Loopback(Cidr),
    /// A prefix is longer than its address.
    #[error("prefix {0} is longer than its address")]
    PrefixLength(Cidr),
}
