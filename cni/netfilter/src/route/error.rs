// SPDX-License-Identifier: Apache-2.0
//! Why policy routes could not be set up or removed.

use std::io;

use redirect::ruleset::Family;
use rustix::io::Errno;

use super::RouteChange;
use crate::netlink::ExchangeError;

/// Failure to set up or remove policy routes. What was added until then is gone again.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No rtnetlink socket, or it failed.
    #[error("talk to rtnetlink")]
    Socket(#[source] io::Error),
    /// The kernel refused to list them.
    #[error("list policy rules and routes")]
    List(#[source] io::Error),
    /// The list changed each time it was read.
    #[error("list policy rules and routes: they kept changing")]
    Busy,
    /// A reply that cannot be read.
    #[error("list policy rules and routes: malformed reply from the kernel")]
    Malformed,
    /// The caller may not.
    #[error("{0}: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)")]
    Permission(RouteChange),
    /// The kernel has no policy routing for this family.
    #[error(
        "{0}: this kernel has no policy routing for it (CONFIG_IP_MULTIPLE_TABLES, CONFIG_IPV6_MULTIPLE_TABLES)"
    )]
    NoPolicyRouting(RouteChange),
    /// A route needs an interface that is up, and `lo` may not be set up.
    #[error("{0}: lo is down, and cannot be set up")]
    LoopbackDown(RouteChange),
    /// IPv6 is switched off in this namespace.
    #[error("{0}: IPv6 is disabled here (net.ipv6.conf.lo.disable_ipv6)")]
    Ipv6Disabled(RouteChange),
    /// Another default route is in the table.
    #[error("{0}: the table holds another default route; choose another table")]
    Occupied(RouteChange),
    /// A table in which the route would catch every packet, or none.
    #[error(
        "send marked packets to routing table {0}: choose a table other than 0 and 253 to 255, which the system uses"
    )]
    ReservedTable(u32),
    /// Mark 0 is that of every packet.
    #[error("send packets with mark 0 to another routing table: every packet has it; choose another mark")]
    NoMark,
    /// The kernel refused a step.
    #[error("{step}")]
    Refused {
        /// The step.
        step: RouteChange,
        /// The kernel's reason.
        #[source]
        reason: io::Error,
    },
}

impl RouteError {
    /// From a list that could not be had.
    pub(super) fn listing(error: ExchangeError) -> Self {
        match error {
            ExchangeError::System(errno) => Self::Socket(errno.into()),
            ExchangeError::Refused(errno) => Self::List(io::Error::from_raw_os_error(errno)),
            ExchangeError::Interrupted => Self::Busy,
            ExchangeError::Malformed => Self::Malformed,
        }
    }

    /// From a step that was refused.
    pub(super) fn refused(step: RouteChange, errno: i32) -> Self {
        match Errno::from_raw_os_error(errno) {
            Errno::PERM => Self::Permission(step),
            Errno::AFNOSUPPORT | Errno::OPNOTSUPP => Self::NoPolicyRouting(step),
            Errno::NETDOWN => Self::LoopbackDown(step),
            // The kernel's errno where the interface has IPv6 switched off.
            Errno::ACCESS if step.family == Family::V6 => Self::Ipv6Disabled(step),
            reason => Self::Refused { step, reason: reason.into() },
        }
    }
}
