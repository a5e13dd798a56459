// SPDX-License-Identifier: Apache-2.0
//! A pod's network as the hand finds it, and what else than the plugin changes there (`workload disturb`, in that network).

use std::net::IpAddr;

use redirect::Redirect;
use serde::{Deserialize, Serialize};

/// The annotation by which a pod chooses its families and their order (`v4`, `v6`, `v6,v4`) of the lab's base plugin, where the runtime hands
/// annotations on.
pub const FAMILIES: &str = "lab.millrace.dev/families";

/// The annotation by which a pod asks the lab's base plugin for further networks, by the names of its interfaces (`net1`).
pub const NETWORKS: &str = "lab.millrace.dev/networks";

/// All rules, policy routes and addresses of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveNetwork {
    /// Generation of nf_tables, which counts its transactions. Legacy tables count none.
    pub generation: u32,
    /// Tables in order of creation, empty ones included; those of legacy iptables last.
    pub tables: Vec<LiveTable>,
    /// All rules, in the order of their tables.
    pub rules: Vec<LiveRule>,
    /// Lookups by mark.
    pub policies: Vec<LivePolicy>,
    /// Addresses of its interfaces, of loopback as well.
    pub addresses: Vec<IpAddr>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTable {
    /// `ip`, `ip6` or `inet`; `legacy ip` and `legacy ip6` for tables of legacy iptables.
    pub family: String,
    /// Its name.
    pub name: String,
    /// Names of its chains, empty ones included.
    pub chains: Vec<String>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRule {
    /// As in [`LiveTable::family`].
    pub family: String,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// 1-based position in the chain.
    pub position: usize,
    /// Packets counted.
    pub packets: u64,
    /// The kernel's number of it: a rule that was removed and put back has another. 0 in legacy tables.
    pub handle: u64,
    /// The rule, as tools list it.
    pub text: String,
}

impl LiveRule {
    /// True in a table of legacy iptables.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.family.starts_with(LEGACY)
    }
}

impl LiveTable {
    /// True if it is one of legacy iptables.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.family.starts_with(LEGACY)
    }
}

/// Begin of the family of a legacy table.
pub const LEGACY: &str = "legacy ";

/// `fwmark MARK lookup TABLE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePolicy {
    /// Of IPv6.
    pub ipv6: bool,
    /// The mark.
    pub mark: u32,
    /// The table.
    pub table: u32,
    /// The table's default route delivers locally.
    pub everything_local: bool,
}

/// The rules that a pod wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Parameters of its redirection.
    pub redirect: Redirect,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// As native tables of nf_tables, not as tables of iptables.
    pub native: bool,
}

/// What somebody else than the plugin does to a pod's network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Everything that redirection needs is there, as a node agent leaves it.
    Repaired(Wanted),
    /// Of the wanted rules this part goes.
    Lost(Wanted, Part),
    /// The tables are flushed.
    Flushed,
    /// Rules of others stand around so many of the wanted ones, in the same chains.
    Surrounded(Wanted, Share),
    /// Our policy routes go.
    Unrouted,
    /// All addresses go, as a network plugin leaves a pod that it has lost.
    Unaddressed,
    /// A lookup by this mark leads to another table.
    Rerouted {
        /// The mark.
        mark: u32,
        /// The other table.
        table: u32,
    },
    /// A table of somebody else exempts all packets from connection tracking, and so from NAT.
    Untracked,
    /// That table goes.
    Tracked,
    /// A nat chain of somebody else, at the priority of ours and registered after them, leaves this inbound TCP port as it is.
    Overtaken(u16),
    /// A blackhole on its first interface (`sch_blackhole`): packets that leave are dropped, and no connection is reset.
    CutOff,
    /// It leaves again.
    Joined,
    /// A table of somebody else accepts packets that leave by this condition.
    Filtered(Foreign),
}

/// Condition of a foreign rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// Of an established connection.
    Established,
    /// Of the direction in which its connection began, which no reader of ours knows.
    Direction,
}

/// Part of a pod's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Everything.
    All,
    /// Those of IPv6.
    Ipv6,
    /// Those for inbound traffic.
    Inbound,
    /// Those for DNS.
    Dns,
    /// Those by which the proxy's own traffic passes.
    ProxyExemption,
}

/// Share of a pod's rules, from the first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Every rule.
    All,
    /// The first half.
    Half,
    /// No rule.
    None,
}
