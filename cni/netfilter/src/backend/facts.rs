// SPDX-License-Identifier: Apache-2.0
//! Facts that decide on a back end: a node's, found in a network namespace that nobody else uses, and a pod's. A probe
//! makes tables; none is ever made in a pod.

use std::fmt;

use redirect::config::Config;
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{Dialect, Family, Table};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::apply::{ApplyError, apply};
use crate::iptables::{self, Variant};
use crate::legacy;
use crate::read::ReadError;

/// The kernel's tables for legacy iptables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LegacyTables {
    /// `filter`; without it nothing of ours is missing but guard rails.
    pub filter: bool,
    /// `mangle`, which TPROXY needs.
    pub mangle: bool,
    /// `nat`, which every pod needs.
    pub nat: bool,
    /// `raw`, which DNS needs.
    pub raw: bool,
}

/// Node features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeFeatures {
    /// nf_tables.
    pub nf_tables: bool,
    /// nf_tables runs what iptables rules of an ordinary pod need.
    pub nft_compat: bool,
    /// nf_tables runs the native rules of an ordinary pod.
    pub native: bool,
    /// Tables for `iptables-legacy`.
    pub legacy: LegacyTables,
    /// Tables for `ip6tables-legacy`.
    pub legacy_v6: LegacyTables,
    /// IPv6 itself.
    pub ipv6: bool,
    /// The tools of variant legacy are installed.
    pub legacy_tools: bool,
    /// The tools of variant nft are installed.
    pub nft_tools: bool,
}

/// Foreign legacy rules that decide a pod's back end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LegacyUse {
    /// No rules but ours: neither tables, chains nor policies are rules.
    #[default]
    NoRulesOfOthers,
    /// Rules of others, and tools to write beside them.
    RulesOfOthers,
    /// Rules of others, and no tools.
    RulesOutOfReach,
}

/// Failure to probe a node.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No network namespace to try in.
    #[error("make a network namespace to probe in")]
    Namespace(#[source] std::io::Error),
    /// The kernel's features could not be told from its answer.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// Finds out what this node has, in a network namespace that is gone afterwards.
///
/// # Errors
/// See [`ProbeError`]. Lacking something is none.
pub fn probe() -> Result<NodeFeatures, ProbeError> {
    std::thread::scope(|scope| match scope.spawn(probe_in_new_namespace).join() {
        Ok(found) => found,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn probe_in_new_namespace() -> Result<NodeFeatures, ProbeError> {
    crate::unshare::network().map_err(|errno| ProbeError::Namespace(errno.into()))?;
    let ipv6 = has_ipv6();
    let compat = try_rules(Dialect::Iptables, ipv6)?;
    let native = try_rules(Dialect::Nft, ipv6)?;
    let tables = |family| {
        let has = |table| legacy::available(family, table);
        let [filter, mangle, nat, raw] = Table::ALL.map(has);
        LegacyTables { filter, mangle, nat, raw }
    };
    Ok(NodeFeatures {
        nf_tables: compat != Answer::NoNfTables,
        nft_compat: compat == Answer::Works,
        native: native == Answer::Works,
        legacy: tables(Family::V4),
        legacy_v6: tables(Family::V6),
        ipv6,
        legacy_tools: iptables::is_installed(Variant::Legacy),
        nft_tools: iptables::is_installed(Variant::Nft),
    })
}

/// Outcome of trying rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Works,
    Lacks,
    NoNfTables,
}

/// Applies the rules of an ordinary pod.
fn try_rules(dialect: Dialect, ipv6: bool) -> Result<Answer, ApplyError> {
    let config = Config {
        dialect,
        ipv6,
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    // The defaults are a configuration.
    let Ok(rules) = ruleset(&config) else { return Ok(Answer::Lacks) };
    match apply(&rules) {
        Ok(_) => Ok(Answer::Works),
        Err(ApplyError::NoNfTables | ApplyError::Read(ReadError::NoNfTables)) => Ok(Answer::NoNfTables),
        // A user namespace without user 1337 can still run rules for others.
        Err(ApplyError::Refused { .. } | ApplyError::UnmappedOwner { .. }) => Ok(Answer::Lacks),
        Err(error) if error.is_lack() => Ok(Answer::Lacks),
        Err(error) => Err(error),
    }
}

fn has_ipv6() -> bool {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None).err() != Some(Errno::AFNOSUPPORT)
}

impl fmt::Display for LegacyTables {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = [self.filter, self.mangle, self.nat, self.raw];
        let names = Table::ALL.iter().zip(has).filter(|(_, has)| *has).map(|(table, _)| table.name());
        out.write_str(&names.collect::<Vec<_>>().join(","))
    }
}
