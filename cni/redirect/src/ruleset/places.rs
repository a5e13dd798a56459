// SPDX-License-Identifier: Apache-2.0
//! Where rules live: tables and chains, with their names in both dialects and the hooks of the native base chains.

use super::Dialect;

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

    /// All tables, in the order of a native transaction.
    pub const NATIVE: [Self; 4] = [Self::Nat, Self::Mangle, Self::Raw, Self::Filter];

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

    /// The name in a dialect.
    #[must_use]
    pub fn name_in(self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Iptables => self.name(),
            Dialect::Nft => self.native_name(),
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

    /// All chains, in the order in which a native transaction makes those that a table needs.
    pub const NATIVE: [Self; 10] = [
        Self::Prerouting,
        Self::Output,
        Self::IstioDivert,
        Self::IstioTproxy,
        Self::IstioInbound,
        Self::IstioRedirect,
        Self::IstioInRedirect,
        Self::IstioOutput,
        Self::IstioOutputDns,
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

    /// The name in a dialect.
    #[must_use]
    pub fn name_in(self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Iptables => self.name(),
            Dialect::Nft => self.native_name(),
        }
    }

    /// True if the kernel calls this chain from a hook.
    #[must_use]
    pub fn is_builtin(self) -> bool {
        matches!(self, Self::Prerouting | Self::Output)
    }
}

/// Hook attachment of a base chain of the native dialect. All have policy accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BaseChain {
    /// `filter`, `nat` or `route`.
    pub kind: BaseKind,
    /// The priority at the hook that the chain is named after.
    pub priority: i32,
}

/// The type of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseKind {
    /// Sees every packet.
    Filter,
    /// Sees the first packet of a connection.
    Nat,
    /// Sees every packet, and looks for another route if a rule changed the mark.
    Route,
}

impl BaseKind {
    /// The kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Route => "route",
        }
    }
}

impl BaseChain {
    /// Hook attachment of `chain` in the native `table`; `None` if only jumps lead there.
    #[must_use]
    pub fn of(table: Table, chain: Chain) -> Option<Self> {
        let (kind, priority) = match table {
            Table::Raw => (BaseKind::Filter, -300),
            Table::Mangle if chain == Chain::Output => (BaseKind::Route, -150),
            Table::Mangle => (BaseKind::Filter, -150),
            Table::Nat => (BaseKind::Nat, -100),
            Table::Filter => (BaseKind::Filter, 0),
        };
        chain.is_builtin().then_some(Self { kind, priority })
    }
}
