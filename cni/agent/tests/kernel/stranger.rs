// SPDX-License-Identifier: Apache-2.0
//! A table of somebody else in the calling thread's namespace, `table ip stranger`, whose one rule exempts all packets that leave from
//! connection tracking. No rule of a nat chain ever sees them, however right it is.
//!
//! Four messages of nf_tables, without anything of the system under test in between, and without the tool that few machines have.

use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`; what they name is the sub-system, in network order.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NF_TABLES: [u8; 2] = [0, 10];
/// `NFNL_SUBSYS_NFTABLES << 8`, and of each object the message that makes it.
pub(crate) const NEW_TABLE: u16 = 10 << 8;
pub(crate) const DELETE_TABLE: u16 = NEW_TABLE | 2;
pub(crate) const NEW_CHAIN: u16 = NEW_TABLE | 3;
pub(crate) const NEW_RULE: u16 = NEW_TABLE | 6;

/// `NLM_F_REQUEST`, and with an answer, and making what is not there.
const REQUEST: u16 = 1;
pub(crate) const ANSWERED: u16 = REQUEST | 4;
pub(crate) const MAKING: u16 = ANSWERED | 0x400;

const IPV4: u8 = 2;
const NAME: &[u8] = b"stranger\0";
const CHAIN: &[u8] = b"out\0";
/// `NF_INET_LOCAL_OUT`, and where connection tracking has not looked yet (`NF_IP_PRI_RAW`).
const LOCAL_OUT: u32 = 3;
const RAW: i32 = -300;
/// `NLA_F_NESTED`
pub(crate) const NESTED: u16 = 0x8000;

/// Exempts packets from connection tracking.
///
/// # Errors
/// The kernel's errno.
pub(crate) fn untrack() -> nix::Result<()> {
    let table = attribute(1, NAME);
    let hook = [attribute(1, &LOCAL_OUT.to_be_bytes()), attribute(2, &RAW.to_be_bytes())].concat();
    let chain = [table.clone(), attribute(3, CHAIN), attribute(NESTED | 4, &hook), attribute(7, b"filter\0")];
    let expression = attribute(NESTED | 1, &attribute(1, b"notrack\0"));
    let rule = [table.clone(), attribute(2, CHAIN), attribute(NESTED | 4, &expression)];
    commit(&[
        message(NEW_TABLE, MAKING, IPV4, [0, 0], &table),
        message(NEW_CHAIN, MAKING, IPV4, [0, 0], &chain.concat()),
        message(NEW_RULE, MAKING, IPV4, [0, 0], &rule.concat()),
    ])
}

/// Deletes the table, and with it the rule.
///
/// # Errors
/// The kernel's errno.
pub(crate) fn track() -> nix::Result<()> {
    commit(&[message(DELETE_TABLE, ANSWERED, IPV4, [0, 0], &attribute(1, NAME))])
}

/// `struct nlattr` with what it holds, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// `struct nlmsghdr`, `struct nfgenmsg` and attributes.
pub(crate) fn message(kind: u16, flags: u16, family: u8, resource: [u8; 2], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(20 + body.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, 0, resource[0], resource[1]]);
    bytes.extend(body);
    bytes
}

/// All or nothing. The kernel has answered each message when it takes the last one.
pub(crate) fn commit(messages: &[Vec<u8>]) -> nix::Result<()> {
    let begin = message(BATCH_BEGIN, REQUEST, 0, NF_TABLES, &[]);
    let end = message(BATCH_END, REQUEST, 0, NF_TABLES, &[]);
    let (kind, flags) = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let fd = socket(AddressFamily::Netlink, kind, flags, SockProtocol::NetlinkNetFilter)?;
    send(fd.as_raw_fd(), &[begin, messages.concat(), end].concat(), MsgFlags::empty())?;
    for _ in messages {
        let mut answer = [0; 512];
        let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        let errno = answer.get(16..20).filter(|_| length >= 20).and_then(|errno| errno.try_into().ok());
        match errno.map(i32::from_ne_bytes) {
            Some(0) => {}
            Some(errno) => return Err(Errno::from_raw(-errno)),
            None => return Err(Errno::EBADMSG),
        }
    }
    Ok(())
}
