// SPDX-License-Identifier: Apache-2.0
//! The process at the other end of a connection, as it was when it connected. The agent's container has a pid namespace of its own, in which
//! plugins have no number: there, the kernel's own identity of a process is taken.

use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::fs::{fstat, fstatfs};
use tokio::net::UnixStream;

/// `PIDFS_MAGIC` of the kernel: only there (since Linux 6.9) has each process an inode of its own.
const PIDFS: u64 = 0x5049_4446;

/// Identity of a live process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// A process of our pid namespace, by its pid.
    Inside(i32),
    /// Any other, by the inode of its pidfd.
    Outside(u64),
}

impl Peer {
    /// The process that connected; `None` for one outside of our pid namespace if the kernel is too old to tell such apart, or if it is gone.
    pub(super) fn of(stream: &UnixStream) -> Option<Self> {
        match stream.peer_cred().ok()?.pid() {
            Some(pid) if pid > 0 => Some(Self::Inside(pid)),
            _ => outside(stream).map(Self::Outside),
        }
    }
}

fn outside(stream: &impl AsFd) -> Option<u64> {
    let pidfd = getsockopt(stream, sockopt::PeerPidfd).ok()?;
    let distinct = u64::try_from(fstatfs(&pidfd).ok()?.f_type).ok()? == PIDFS;
    Some(fstat(&pidfd).ok()?.st_ino).filter(|_| distinct)
}
