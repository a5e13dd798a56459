// SPDX-License-Identifier: Apache-2.0
//! Messages to and from nfnetlink (`linux/netfilter/nfnetlink.h`), as far as the tables need them.

use std::os::fd::OwnedFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

/// `NLM_F_REQUEST`, with an answer (`NLM_F_ACK`), and with a list for an answer (`NLM_F_DUMP`).
pub(crate) const REQUEST: u16 = 1;
pub(crate) const ANSWERED: u16 = REQUEST | 4;
pub(crate) const LISTED: u16 = REQUEST | 0x300;

/// `struct nlmsghdr` and `struct nfgenmsg`: where what a message says begins.
pub(crate) const HEAD: usize = 20;

/// A socket of the calling thread's namespace.
pub(crate) fn open() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)
}

/// A message without anything behind its head.
pub(crate) fn message(kind: u16, flags: u16, family: u8, subsystem: [u8; 2]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD);
    message.extend(20_u32.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family, 0]);
    message.extend(subsystem);
    message
}
