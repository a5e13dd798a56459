// SPDX-License-Identifier: Apache-2.0
//! The C structures of xtables extensions, as the kernel's headers lay them out on 64-bit machines: host byte order except where
//! noted, padded to 8 bytes.

use redirect::ruleset::{CtStates, Owner, Sense};

use super::Unencodable;
use super::rule::number;
use crate::nft::NAT_RANGE_PORT;

/// `XT_OWNER_UID`
const OWNER_UID: u8 = 1;
/// `XT_OWNER_GID`
const OWNER_GID: u8 = 2;
/// `XT_MULTIPORT_DESTINATION`
const MULTIPORT_DESTINATION: u8 = 1;
/// `XT_MULTI_PORTS`
const MULTIPORT_PORTS: usize = 15;
/// `XT_CONNTRACK_STATE`
const CONNTRACK_STATE: u16 = 1;
/// Every bit of a mark counts.
const FULL_MASK: u32 = u32::MAX;

/// Mode of `-j CONNMARK`: `XT_CONNMARK_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnMark {
    Save = 1,
    Restore = 2,
}

fn put<const N: usize>(info: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = info.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
}

/// `struct xt_owner_match_info`: uid and gid ranges, which of them count, which are negated.
pub(super) fn owner(sense: Sense, owner: &Owner) -> Result<[u8; 24], Unencodable> {
    let (id, at, kind) = match owner {
        Owner::Uid(id) => (id, 0, OWNER_UID),
        Owner::Gid(id) => (id, 8, OWNER_GID),
    };
    let number = number(id)?;
    let mut info = [0; 24];
    put(&mut info, at, number.to_ne_bytes());
    put(&mut info, at + 4, number.to_ne_bytes());
    info[16] = kind;
    info[17] = if sense == Sense::Not { kind } else { 0 };
    Ok(info)
}

/// `struct xt_multiport_v1`
pub(super) fn multiport(sense: Sense, ports: &[u16]) -> Result<[u8; 48], Unencodable> {
    let count = u8::try_from(ports.len()).unwrap_or(u8::MAX);
    if ports.is_empty() || ports.len() > MULTIPORT_PORTS {
        return Err(Unencodable::PortCount(ports.len()));
    }
    let mut info = [0; 48];
    info[0] = MULTIPORT_DESTINATION;
    info[1] = count;
    for (index, port) in ports.iter().enumerate() {
        put(&mut info, 2 + 2 * index, port.to_ne_bytes());
    }
    info[47] = u8::from(sense == Sense::Not);
    Ok(info)
}

/// `XT_CONNTRACK_STATE_*`: as nf_tables has them, but that SNAT and DNAT come before untracked.
fn state_bits(states: CtStates) -> u16 {
    let [low, ..] = states.bits().to_le_bytes();
    u16::from(low & 0x0f) | u16::from(states.contains(CtStates::UNTRACKED)) << 8
}

/// `struct xt_conntrack_mtinfo3`, of which only the states are used.
pub(super) fn conntrack(states: CtStates) -> [u8; 168] {
    let mut info = [0; 168];
    put(&mut info, 146, CONNTRACK_STATE.to_ne_bytes());
    put(&mut info, 150, state_bits(states).to_ne_bytes());
    info
}

/// `struct xt_connmark_mtinfo1`
pub(super) fn connmark(mark: u32) -> [u8; 16] {
    let mut info = [0; 16];
    put(&mut info, 0, mark.to_ne_bytes());
    put(&mut info, 4, FULL_MASK.to_ne_bytes());
    info
}

/// `struct xt_tcp` and `struct xt_udp`, which begin alike, for any ports: the form of `--dport 0:65535`.
pub(super) fn any_port() -> [u8; 16] {
    let mut info = [0; 16];
    put(&mut info, 2, u16::MAX.to_ne_bytes());
    put(&mut info, 6, u16::MAX.to_ne_bytes());
    info
}

/// `struct nf_nat_ipv4_multi_range_compat` with one range. Ports in network order.
pub(super) fn redirect_v4(port: u16) -> [u8; 24] {
    let mut info = [0; 24];
    put(&mut info, 0, 1_u32.to_ne_bytes());
    put(&mut info, 4, NAT_RANGE_PORT.to_ne_bytes());
    put(&mut info, 16, port.to_be_bytes());
    put(&mut info, 18, port.to_be_bytes());
    info
}

/// `struct nf_nat_range`. Ports in network order.
pub(super) fn redirect_v6(port: u16) -> [u8; 40] {
    let mut info = [0; 40];
    put(&mut info, 0, NAT_RANGE_PORT.to_ne_bytes());
    put(&mut info, 36, port.to_be_bytes());
    put(&mut info, 38, port.to_be_bytes());
    info
}

/// `struct xt_mark_tginfo2`
pub(super) fn set_mark(mark: u32) -> [u8; 8] {
    let mut info = [0; 8];
    put(&mut info, 0, mark.to_ne_bytes());
    put(&mut info, 4, FULL_MASK.to_ne_bytes());
    info
}

/// `struct xt_connmark_tginfo2`
pub(super) fn set_connmark(what: ConnMark) -> [u8; 16] {
    let mut info = [0; 16];
    put(&mut info, 4, FULL_MASK.to_ne_bytes());
    put(&mut info, 8, FULL_MASK.to_ne_bytes());
    info[14] = what as u8;
    info
}

/// `struct xt_tproxy_target_info_v1`. Port in network order.
pub(super) fn tproxy(mark: u32, port: u16) -> [u8; 32] {
    let mut info = [0; 32];
    put(&mut info, 0, FULL_MASK.to_ne_bytes());
    put(&mut info, 4, mark.to_ne_bytes());
    put(&mut info, 24, port.to_be_bytes());
    info
}

/// `struct xt_ct_target_info_v1`
pub(super) fn zone(zone: u16) -> [u8; 72] {
    let mut info = [0; 72];
    put(&mut info, 2, zone.to_ne_bytes());
    info
}
