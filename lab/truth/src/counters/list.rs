// SPDX-License-Identifier: Apache-2.0
//! Counters of the rules of nf_tables, and nothing else of them: they are read after every packet, and with [`netfilter::read`], which decodes
//! rules, the truth table took a fifth more of the processor's time. Tables and chains are not asked for, and rules come in the same order (`nf_tables_dump_rules`).

use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, ensure};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::nfnetlink::{HEAD, LISTED, message, open};

/// `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE`, and the kind of its answers: `NFT_MSG_NEWRULE`.
const GET_RULE: u16 = 10 << 8 | 7;
const NEW_RULE: u16 = 10 << 8 | 6;
/// `NLMSG_ERROR`, `NLMSG_DONE`
const ENDS: [u16; 2] = [2, 3];
/// `NLM_F_DUMP_INTR`
const INTERRUPTED: u16 = 0x10;
/// `NFTA_RULE_EXPRESSIONS`, `NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`, `NFTA_COUNTER_PACKETS`
const EXPRESSIONS: u16 = 4;
const NAME: u16 = 1;
const DATA: u16 = 2;
const PACKETS: u16 = 2;
/// Longest datagram that the kernel lists in.
const DATAGRAM: usize = 32 * 1024;

/// Counters of the namespace that this was opened in.
#[derive(Debug)]
pub(crate) struct List {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl List {
    /// Of the calling thread's namespace.
    pub(crate) fn open() -> anyhow::Result<Self> {
        Ok(Self { socket: open()?, buffer: vec![0; DATAGRAM] })
    }

    /// Packets by rule of the tables of this family (`NFPROTO_`); zero for a rule without a counter.
    pub(crate) fn packets(&mut self, family: u8) -> anyhow::Result<Vec<u64>> {
        send(self.socket.as_raw_fd(), &message(GET_RULE, LISTED, family, [0, 0]), MsgFlags::empty())?;
        let mut packets = Vec::new();
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty())?;
            let mut rest = self.buffer.get(..length).context("a datagram is too long")?;
            while !rest.is_empty() {
                let (head, body, after) = next(rest).context("a message is cut")?;
                ensure!(head.flags & INTERRUPTED == 0, "somebody changes rules");
                match head.kind {
                    NEW_RULE => packets.push(counted(body.get(HEAD - 16..).unwrap_or_default())),
                    kind if ENDS.contains(&kind) => {
                        let errno =
                            body.get(..4).and_then(|errno| errno.try_into().ok()).map(i32::from_ne_bytes);
                        ensure!(errno == Some(0), "rules are not listed: {errno:?}");
                        return Ok(packets);
                    }
                    _ => {}
                }
                rest = after;
            }
        }
    }
}

/// Of `struct nlmsghdr`.
struct Head {
    kind: u16,
    flags: u16,
}

/// The first message: its head, what follows that in it, and the messages behind it.
fn next(bytes: &[u8]) -> Option<(Head, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let flags = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((Head { kind, flags }, bytes.get(16..length)?, after))
}

/// Packets of a rule, by its attributes.
fn counted(rule: &[u8]) -> u64 {
    let expressions = Attributes(rule).value(EXPRESSIONS).unwrap_or_default();
    let is_counter = |one: &&[u8]| Attributes(one).value(NAME) == Some(b"counter\0");
    let counter = Attributes(expressions).map(|(_, expression)| expression).find(is_counter);
    let packets = || Attributes(Attributes(counter?).value(DATA)?).value(PACKETS)?.try_into().ok();
    packets().map_or(0, u64::from_be_bytes)
}

/// Attributes (`struct nlattr`): number without its flags, and value.
#[derive(Clone, Copy)]
struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    fn value(mut self, wanted: u16) -> Option<&'a [u8]> {
        self.find_map(|(number, value)| (number == wanted).then_some(value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?));
        let number = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((number, value))
    }
}
