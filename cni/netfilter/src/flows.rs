// SPDX-License-Identifier: Apache-2.0
//! Connections that were open before rules were written. The nat table meets the first packet of a connection alone, so where conntrack
//! knows a connection it goes on past the proxy. [`settle`] ends the connections that the new rules would redirect, and no other: the proxy's
//! own and excluded ones go on.
//!
//! | part | what it does |
//! |---|---|
//! | `sockets` | lists sockets and closes them (sock_diag) |
//! | `conntrack` | lists and deletes conntrack entries (ctnetlink) |
//! | `owners` | the groups of sockets' processes, which no listing has |
//! | `decide` | the fate of each connection; pure |
//!
//! A conntrack entry is deleted. The next packet then begins a connection anew in the middle, is redirected, and the proxy, which knows no
//! such connection, resets it. That holds only if `nf_conntrack_tcp_loose` is on and if the rules redirect either end's packet, whichever
//! comes first: else a packet of the peer begins a connection that no rule redirects. There the socket is closed as well (`SOCK_DESTROY`,
//! Linux 4.9 with `CONFIG_INET_DIAG_DESTROY`). What can neither be ended nor decided is counted.

mod conntrack;
mod decide;
mod owners;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;

use redirect::config::{Config, ConfigError};
use redirect::found::compare::{Form, forms};
use redirect::generate::ruleset;
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType};

use crate::address::Address;
use crate::look::{LookError, look};
use crate::netlink::{ExchangeError, Socket};
use crate::owner::{self, OwnerError};

use conntrack::Entry;
use decide::{Decided, Fate, Scene};

/// Number of connections by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// Ended, or ended by their next packet.
    pub ended: usize,
    /// They go on past the proxy: neither conntrack nor the socket could be changed.
    pub past: usize,
    /// They may go on past the proxy: whether rules exempt their process is not known.
    pub unknown: usize,
}

impl Settled {
    /// True if no connection is known or suspected to bypass the proxy.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.past == 0 && self.unknown == 0
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.ended, "were ended"),
            (self.past, "bypass the proxy"),
            (self.unknown, "may bypass the proxy"),
        ];
        let said: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, fate)| format!("{count} connections that were open before the rules {fate}"))
            .collect();
        out.write_str(&said.join("; "))
    }
}

/// Failure to find out about open connections.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// The rules that are there cannot be read.
    #[error("find open connections: {0}")]
    Look(#[from] LookError),
    /// No rules can be made of the configuration.
    #[error("find open connections: {0}")]
    Config(#[from] ConfigError),
    /// The namespace's users cannot be read.
    #[error("find open connections: {0}")]
    Owner(#[from] OwnerError),
    /// The kernel does not list sockets.
    #[error("list open sockets")]
    Sockets(#[source] io::Error),
}

fn reason(error: ExchangeError) -> io::Error {
    match error {
        ExchangeError::System(errno) => errno.into(),
        ExchangeError::Refused(errno) => io::Error::from_raw_os_error(errno),
        ExchangeError::Interrupted => Errno::INTR.into(),
        ExchangeError::Malformed => io::ErrorKind::InvalidData.into(),
    }
}

/// Ends connections of the calling thread's namespace that bypass rules of `config`, which are there by now. `proc` is where processes are
/// listed; those that are not count as unknown.
///
/// # Errors
/// The kernel does not say which connections are open; see [`FlowsError`].
pub fn settle(config: &Config, addresses: &[Address], proc: &Path) -> Result<Settled, FlowsError> {
    // Users and groups of sockets are those of the rules there.
    owner::enter()?;
    let mut diagnosis = Socket::diagnosis().map_err(|errno| FlowsError::Sockets(errno.into()))?;
    let sockets = sockets::list(&mut diagnosis).map_err(|error| FlowsError::Sockets(reason(error)))?;
    let mut netfilter = Socket::netfilter().ok();
    // A kernel without ctnetlink lists none, and sockets are closed.
    let entries: Vec<Entry> =
        netfilter.as_mut().and_then(|socket| conntrack::list(socket).ok()).unwrap_or_default();
    if sockets.open.is_empty() && entries.is_empty() {
        return Ok(Settled::default());
    }
    let form = forms(&look()?).first().copied().unwrap_or(Form::Iptables);
    let config = config.clone().in_dialect(form.dialect());
    let wanted = ruleset(&config)?;
    let interfaces =
        addresses.iter().filter_map(|address| Some((address.ip, name(address.interface)?))).collect();
    let scene = Scene::new(&wanted, &config, interfaces, (&sockets.listening, &entries), is_loose());
    let mut decided = scene.fates(&sockets, &BTreeMap::new());
    let undecided: BTreeSet<u64> =
        decided.iter().filter(|one| one.fate == Fate::Unknown).map(|one| one.inode).collect();
    if !undecided.is_empty() {
        decided = scene.fates(&sockets, &owners::groups(proc, &undecided));
    }
    let mut settled = Settled::default();
    for Decided { fate, .. } in decided {
        let Fate::End { entry, close } = fate else {
            settled.unknown += usize::from(fate == Fate::Unknown);
            continue;
        };
        let entry = entry.and_then(|at| entries.get(at));
        let is_deleted = entry
            .is_none_or(|entry| netfilter.as_mut().is_some_and(|socket| conntrack::delete(socket, entry)));
        let open = close.and_then(|at| sockets.open.get(at));
        let is_ended = open.map_or(is_deleted, |open| sockets::close(&mut diagnosis, open));
        if is_ended { settled.ended += 1 } else { settled.past += 1 }
    }
    Ok(settled)
}

fn name(interface: u32) -> Option<String> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    index_to_name(&socket, interface).ok()
}

/// True if conntrack takes a packet in the middle of a connection for the first one. What cannot be read counts as off.
fn is_loose() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_tcp_loose");
    setting.is_ok_and(|text| text.trim() != "0")
}
