// SPDX-License-Identifier: Apache-2.0
//! A table of somebody else in the calling thread's namespace, `table ip stranger`. [`untrack`] exempts all packets that leave from connection
//! tracking: no rule of a nat chain ever sees them, however right it is. [`take`] decides on packets before ours can.
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
/// Of incoming packets, and of outgoing ones.
const TAKES: [&[u8]; 2] = [b"takes\0", b"takes-out\0"];
/// `NFT_META_L4PROTO`, `NFT_PAYLOAD_TRANSPORT_HEADER`
const L4_PROTOCOL: u32 = 16;
const TRANSPORT_HEADER: u32 = 2;
/// `NF_INET_PRE_ROUTING`
pub(crate) const PREROUTING: u32 = 0;
/// `NF_IP_PRI_NAT_DST`
pub(crate) const DESTINATION_NAT: i32 = -100;
/// `NF_INET_LOCAL_OUT`, and where connection tracking has not looked yet (`NF_IP_PRI_RAW`).
pub(crate) const LOCAL_OUT: u32 = 3;
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

/// A nat chain of `table ip stranger` for incoming or outgoing packets, at the priority of destination nat, whose one rule leaves a TCP
/// port as it is: the first chain that decides ends nat for the packet. This is what KubeVirt's virt-launcher writes for its guest's ports, but
/// that it names the guest.
///
/// # Errors
/// The kernel's errno.
pub(crate) fn take(hook: u32, priority: i32, port: u16) -> nix::Result<()> {
    let table = attribute(1, NAME);
    let name = TAKES[usize::from(hook == LOCAL_OUT)];
    let at = [attribute(1, &hook.to_be_bytes()), attribute(2, &priority.to_be_bytes())].concat();
    let chain = [table.clone(), attribute(3, name), attribute(NESTED | 4, &at), attribute(7, b"nat\0")];
    let expressions = [
        with_data(b"meta\0", &[(1, 1), (2, L4_PROTOCOL)], None),
        with_data(b"cmp\0", &[(1, 1), (2, 0)], Some((3, &[6]))),
        with_data(b"payload\0", &[(1, 1), (2, TRANSPORT_HEADER), (3, 2), (4, 2)], None),
        with_data(b"cmp\0", &[(1, 1), (2, 0)], Some((3, &port.to_be_bytes()))),
        with_data(b"counter\0", &[], None),
        with_data(b"immediate\0", &[(1, 1)], Some((2, &port.to_be_bytes()))),
        with_data(b"redir\0", &[(1, 1)], None),
    ];
    let rule = [table.clone(), attribute(2, name), attribute(NESTED | 4, &expressions.concat())];
    commit(&[
        message(NEW_TABLE, MAKING, IPV4, [0, 0], &table),
        message(NEW_CHAIN, MAKING, IPV4, [0, 0], &chain.concat()),
        message(NEW_RULE, MAKING, IPV4, [0, 0], &rule.concat()),
    ])
}

/// An expression with its numbers, and a value.
fn with_data(name: &[u8], numbers: &[(u16, u32)], value: Option<(u16, &[u8])>) -> Vec<u8> {
    let mut data: Vec<u8> =
        numbers.iter().flat_map(|(kind, number)| attribute(*kind, &number.to_be_bytes())).collect();
    data.extend(value.into_iter().flat_map(|(kind, value)| attribute(NESTED | kind, &attribute(1, value))));
    attribute(NESTED | 1, &[attribute(1, name), attribute(NESTED | 2, &data)].concat())
}

/// Hook priorities of `mangle` and `filter`.
pub(crate) const MANGLE: i32 = -150;
pub(crate) const FILTER: i32 = 0;
/// `NF_DROP`, `NF_ACCEPT`
pub(crate) const DROP: u32 = 0;
pub(crate) const ACCEPT: u32 = 1;

/// Condition of a foreign rule, in the expressions that nft writes for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// `counter`
    Nothing,
    /// `ct state established`
    Established,
    /// `ct state new`
    New,
    /// `meta l4proto icmp`
    Icmp,
    /// `ct direction original`, which no reader knows.
    Direction,
}

/// Adds a rule of the output hook that asks for this and ends with that verdict.
///
/// # Errors
/// The kernel's errno.
pub(crate) fn rule(asked: Asked, priority: i32, verdict: u32) -> nix::Result<()> {
    let table = attribute(1, NAME);
    let hook = [attribute(1, &LOCAL_OUT.to_be_bytes()), attribute(2, &priority.to_be_bytes())].concat();
    let chain = [table.clone(), attribute(3, CHAIN), attribute(NESTED | 4, &hook), attribute(7, b"filter\0")];
    let number = |kind, value: u32| attribute(kind, &value.to_be_bytes());
    let expression = |name: &[u8], data: Vec<u8>| {
        attribute(NESTED | 1, &[attribute(1, name), attribute(NESTED | 2, &data)].concat())
    };
    let load = |name: &[u8], key| expression(name, [number(1, 1), number(2, key)].concat());
    let data = |kind, value: &[u8]| attribute(NESTED | kind, &attribute(1, value));
    let compare = |operation, value: &[u8]| {
        expression(b"cmp\0", [number(1, 1), number(2, operation), data(3, value)].concat())
    };
    let masked = |mask: u32| {
        let fields =
            [number(1, 1), number(2, 1), number(3, 4), data(4, &mask.to_ne_bytes()), data(5, &[0; 4])];
        expression(b"bitwise\0", fields.concat())
    };
    let state = |bit| [load(b"ct\0", 0), masked(bit), compare(1, &[0; 4])].concat();
    let asked = match asked {
        Asked::Nothing => expression(b"counter\0", Vec::new()),
        Asked::Established => state(2),
        Asked::New => state(8),
        Asked::Icmp => [load(b"meta\0", 16), compare(0, &[1])].concat(),
        Asked::Direction => [load(b"ct\0", 1), compare(0, &[0])].concat(),
    };
    let ends = attribute(NESTED | 2, &attribute(NESTED | 2, &number(1, verdict)));
    let ends = expression(b"immediate\0", [number(1, 0), ends].concat());
    let rule = [table.clone(), attribute(2, CHAIN), attribute(NESTED | 4, &[asked, ends].concat())];
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
