// SPDX-License-Identifier: Apache-2.0
//! Effects of a restricted kernel on system calls.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

pub use cluster::{Entering, Lack};
use nix::errno::Errno;

/// Differences of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    pub without: Vec<Lack>,
    /// Paths that nobody may open, as under a mandatory access control: the path itself and everything below.
    pub deny: Vec<PathBuf>,
    /// Permission to enter namespaces (denied to a container without `CAP_SYS_ADMIN`).
    pub entering: Entering,
    /// The system call at which the program is killed, counted from the one after it has first entered a namespace.
    pub kill_at: Option<NonZeroU32>,
    /// The change of a file before which the program is killed, counted from 1.
    pub kill_at_change: Option<NonZeroU32>,
    /// Speed of time, if it passes faster.
    pub times: Option<NonZeroU32>,
    /// File for a journal of what it does to files.
    pub journal: Option<PathBuf>,
    /// Directories that the journal is of.
    pub durable: Vec<PathBuf>,
}

/// A relevant system call with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum SystemCall<'a> {
    /// `socket(domain, _, protocol)`
    Socket {
        /// `AF_*`
        domain: u64,
        protocol: u64,
    },
    /// Sent bytes.
    Send(&'a [u8]),
    /// Path of a file that is opened, executed or looked up.
    Path(&'a Path),
    /// `getsockopt(_, level, name, value)`
    SocketOption {
        /// `SOL_*`
        level: u64,
        name: u64,
        /// Argument value.
        value: &'a [u8],
    },
    /// `setns`
    Enter,
}

/// Fate of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Executed unchanged.
    Same,
    /// Skipped; fails with this.
    Fails(Errno),
    /// Executed with these bytes replaced.
    Changed(Vec<(usize, u8)>),
}

const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const NETLINK_NETFILTER: u64 = 12;
/// A family and a netfilter sub-system that no kernel has.
const NO_FAMILY: u8 = 30;
const NO_SUBSYSTEM: u8 = 11 + 50;
/// `NFNL_SUBSYS_NONE`: the kernel has a place for it, as for every sub-system that can be built into it, and answers otherwise than to a
/// number beyond all of them.
const SUBSYSTEM_NONE: u8 = 0;
/// `NFNL_SUBSYS_*`
const SUBSYSTEM_NF_TABLES: u8 = 10;
const SUBSYSTEM_COMPAT: u8 = 11;
/// `NFNL_MSG_BATCH_BEGIN`
const BATCH_BEGIN: u16 = 16;
/// `SOL_IP`, `SOL_IPV6`, and the first and last option of legacy iptables (`IPT_BASE_CTL`).
const LEVELS: [u64; 2] = [0, 41];
const IPT_OPTIONS: std::ops::RangeInclusive<u64> = 64..=68;

impl Difference {
    /// Fate of `call`.
    #[must_use]
    pub fn fate(&self, call: &SystemCall<'_>) -> Fate {
        let lacks = |lack| self.without.contains(&lack);
        match call {
            SystemCall::Socket { domain: AF_NETLINK, protocol: NETLINK_NETFILTER }
                if lacks(Lack::Nfnetlink) =>
            {
                Fate::Fails(Errno::EPROTONOSUPPORT)
            }
            SystemCall::Socket { domain: AF_INET6, .. } if lacks(Lack::Ipv6) => {
                Fate::Fails(Errno::EAFNOSUPPORT)
            }
            SystemCall::Socket { .. } => Fate::Same,
            SystemCall::Send(bytes) => {
                changed(self.without.iter().flat_map(|lack| edits(*lack, bytes)).collect())
            }
            SystemCall::Path(path) => self.opened(path),
            SystemCall::SocketOption { level, name, value } => {
                if !LEVELS.contains(level) || !IPT_OPTIONS.contains(name) {
                    Fate::Same
                } else if lacks(Lack::IpTables) {
                    Fate::Fails(Errno::ENOPROTOOPT)
                } else if lacks(Lack::LegacyNat) && value.starts_with(b"nat\0") {
                    changed(vec![(0, b'-')])
                } else {
                    Fate::Same
                }
            }
            SystemCall::Enter if self.entering == Entering::Forbidden => Fate::Fails(Errno::EPERM),
            SystemCall::Enter => Fate::Same,
        }
    }

    fn opened(&self, path: &Path) -> Fate {
        let ends = |names: &[&str]| names.iter().any(|name| path.ends_with(name));
        let lacks = |lack| self.without.contains(&lack);
        let legacy = lacks(Lack::IpTables) && ends(&["ip_tables_names", "ip6_tables_names"]);
        let ipv6 = lacks(Lack::Ipv6) && ends(&["net/if_inet6"]);
        if self.deny.iter().any(|denied| path.starts_with(denied)) {
            Fate::Fails(Errno::EACCES)
        } else if legacy || ipv6 {
            Fate::Fails(Errno::ENOENT)
        } else {
            Fate::Same
        }
    }
}

fn changed(edits: Vec<(usize, u8)>) -> Fate {
    if edits.is_empty() { Fate::Same } else { Fate::Changed(edits) }
}

/// The bytes of netlink messages that must be others so that the kernel answers as one that lacks something.
fn edits(lack: Lack, bytes: &[u8]) -> Vec<(usize, u8)> {
    match lack {
        Lack::NfTables => {
            messages(bytes).filter_map(|message| message.other_subsystem(SUBSYSTEM_NF_TABLES)).collect()
        }
        Lack::NftCompat => {
            let questions = messages(bytes).filter_map(|message| message.other_subsystem(SUBSYSTEM_COMPAT));
            // Attribute NFTA_EXPR_NAME with its header: length, type.
            let names = [&b"\x0a\0\x01\0match\0"[..], b"\x0b\0\x01\0target\0"];
            questions.chain(names.iter().flat_map(|name| found(bytes, name))).collect()
        }
        // Attribute NFTA_CHAIN_TYPE.
        Lack::NftNat => found(bytes, b"\x08\0\x07\0nat\0").collect(),
        Lack::Ipv6 => messages(bytes).filter_map(|message| message.other_family()).collect(),
        Lack::Nfnetlink | Lack::IpTables | Lack::LegacyNat => Vec::new(),
    }
}

/// Where a name stands in an attribute; its first letter becomes one that no name begins with.
fn found(bytes: &[u8], attribute: &'static [u8]) -> impl Iterator<Item = (usize, u8)> {
    let starts = bytes.windows(attribute.len()).enumerate().filter(move |(_, window)| *window == attribute);
    starts.map(|(at, _)| (at + 4, b'-'))
}

/// A netlink message: where it begins, its type, and whether it is one of netfilter's.
struct Message<'a> {
    at: usize,
    kind: u16,
    body: &'a [u8],
}

fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = bytes.get(at..at + 16)?;
        let length = usize::try_from(u32::from_ne_bytes(*header.first_chunk()?)).ok()?;
        let body = bytes.get(at + 16..at + length)?;
        let message = Message { at, kind: u16::from_ne_bytes([header[4], header[5]]), body };
        at += length.next_multiple_of(4);
        Some(message)
    })
}

/// Messages of rtnetlink and the header's kinds are below; netfilter's have their sub-system above.
const FIRST_OF_NETFILTER: u16 = 256;

impl Message<'_> {
    /// Makes a message to one of netfilter's sub-systems one to a sub-system that is not there.
    fn other_subsystem(&self, subsystem: u8) -> Option<(usize, u8)> {
        if self.kind == BATCH_BEGIN && self.body.get(2..4) == Some(&[0, subsystem]) {
            return Some((self.at + 16 + 3, SUBSYSTEM_NONE));
        }
        // The second byte of the type, in the order of the machines that can be traced.
        (self.kind >> 8 == u16::from(subsystem)).then_some((self.at + 5, NO_SUBSYSTEM))
    }

    /// Turns a message about IPv6 into one about an unknown family.
    fn other_family(&self) -> Option<(usize, u8)> {
        const INET: u8 = 1;
        const IPV6: u8 = 10;
        let family = *self.body.first()?;
        let named = family == IPV6 || (family == INET && self.kind >= FIRST_OF_NETFILTER);
        named.then_some((self.at + 16, NO_FAMILY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn without(lack: Lack) -> Difference {
        Difference { without: vec![lack], ..Difference::default() }
    }

    fn sent(lack: Lack, bytes: &[u8]) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        if let Fate::Changed(edits) = without(lack).fate(&SystemCall::Send(bytes)) {
            for (at, byte) in edits {
                changed[at] = byte;
            }
        }
        changed
    }

    #[test]
    fn a_transaction_goes_to_a_subsystem_that_is_not_there() {
        let mut bytes = message(BATCH_BEGIN, &[0, 0, 0, SUBSYSTEM_NF_TABLES]);
        bytes.extend(message(0x0a00, &[2, 0, 0, 0]));
        let changed = sent(Lack::NfTables, &bytes);
        assert_eq!(changed[19], SUBSYSTEM_NONE);
        assert_eq!(changed[20 + 5], NO_SUBSYSTEM);
        assert_eq!(changed.iter().zip(&bytes).filter(|(new, old)| new != old).count(), 2);
        assert_eq!(sent(Lack::NftCompat, &bytes), bytes);
    }

    #[test]
    fn extensions_lose_their_names_and_only_they() {
        let rule = b"\x0a\0\x01\0match\0\0\0\x0b\0\x01\0target\0\0\x0c\0\x01\0counter\0";
        let changed = sent(Lack::NftCompat, &message(0x0a06, rule));
        let expected = b"\x0a\0\x01\0-atch\0\0\0\x0b\0\x01\0-arget\0\0\x0c\0\x01\0counter\0";
        assert_eq!(&changed[16..16 + rule.len()], expected);
        assert_eq!(sent(Lack::NftCompat, &message(0x0b00, &[2, 0, 0, 0]))[5], NO_SUBSYSTEM);
    }

    #[test]
    fn ipv6_is_in_messages_of_both_kinds() {
        assert_eq!(sent(Lack::Ipv6, &message(20, &[10, 0]))[16], NO_FAMILY, "an address");
        assert_eq!(sent(Lack::Ipv6, &message(0x0a00, &[1, 0]))[16], NO_FAMILY, "a table of family inet");
        let interface = message(18, &[1, 0]);
        assert_eq!(sent(Lack::Ipv6, &interface), interface);
        let refused = without(Lack::Ipv6).fate(&SystemCall::Socket { domain: AF_INET6, protocol: 0 });
        assert_eq!(refused, Fate::Fails(Errno::EAFNOSUPPORT));
    }

    #[test]
    fn paths_are_denied_with_what_is_below_them() {
        let denied = Difference { deny: vec!["/run/istio-cni".into()], ..Difference::default() };
        let open = |path: &str| denied.fate(&SystemCall::Path(Path::new(path)));
        assert_eq!(open("/run/istio-cni/agent.sock"), Fate::Fails(Errno::EACCES));
        assert_eq!(open("/run/istio-cni-other"), Fate::Same);
    }

    #[test]
    fn legacy_tables_can_be_absent_whole_or_in_part() {
        let option = |value| SystemCall::SocketOption { level: 0, name: 64, value };
        assert_eq!(without(Lack::IpTables).fate(&option(b"filter\0")), Fate::Fails(Errno::ENOPROTOOPT));
        assert_eq!(without(Lack::LegacyNat).fate(&option(b"nat\0")), Fate::Changed(vec![(0, b'-')]));
        assert_eq!(without(Lack::LegacyNat).fate(&option(b"filter\0")), Fate::Same);
        let listing = SystemCall::Path(Path::new("/proc/self/net/ip_tables_names"));
        assert_eq!(without(Lack::IpTables).fate(&listing), Fate::Fails(Errno::ENOENT));
    }

    #[test]
    fn broken_messages_are_sent_as_they_are() {
        for bytes in [&[][..], &[1], &[255; 40], &[0; 64]] {
            assert_eq!(without(Lack::NfTables).fate(&SystemCall::Send(bytes)), Fate::Same);
        }
    }
}
