// SPDX-License-Identifier: Apache-2.0
//! The conditions and the target of an entry of legacy iptables, from the C structures of the kernel's headers; pure. What our rules
//! do not know keeps only its name.

use std::net::IpAddr;

use redirect::found::{Action, Condition};
use redirect::ruleset::{Cidr, CtStates, Dialect, Family, Id, Match, Owner, Port, Protocol, Sense, Target};
use redirect::text;

use super::layout::{EXTENSION_HEADER, Entry, name, u16_at, u32_at};

/// `IPT_INV_*`, `IP6T_INV_*`: which conditions of the head are negated.
mod inverted {
    pub(super) const IN: u8 = 0x01;
    pub(super) const OUT: u8 = 0x02;
    pub(super) const SOURCE: u8 = 0x08;
    pub(super) const DESTINATION: u8 = 0x10;
    pub(super) const PROTOCOL: u8 = 0x40;
}

/// Where the conditions of the head are: `struct ipt_ip`, `struct ip6t_ip6`.
struct Head {
    /// Length of an address.
    address: usize,
    /// Source, destination and their masks come first; then names and masks of interfaces.
    interfaces: usize,
    protocol: usize,
    flags: usize,
}

impl Head {
    fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self { address: 4, interfaces: 16, protocol: 80, flags: 82 },
            // A type of service comes before the flags.
            Family::V6 => Self { address: 16, interfaces: 64, protocol: 128, flags: 131 },
        }
    }
}

/// A standard target's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    Return,
    Queue,
    /// The offset of an entry.
    Jump(u32),
}

/// The verdict of a standard target, which is the one without a name.
pub(super) fn verdict(entry: &Entry<'_>) -> Option<Verdict> {
    let (name, _, info) = extension(entry.target)?;
    if !name.is_empty() {
        return None;
    }
    let number = u32_at(info, 0)?;
    Some(match number.cast_signed() {
        -1 => Verdict::Drop,
        -2 => Verdict::Accept,
        -4 => Verdict::Queue,
        -5 => Verdict::Return,
        0.. => Verdict::Jump(number),
        _ => return None,
    })
}

/// True if a jump does not come back.
pub(super) fn is_goto(family: Family, entry: &Entry<'_>) -> bool {
    let (at, bit) = match family {
        Family::V4 => (Head::of(family).flags, 0x02),
        Family::V6 => (Head::of(family).flags, 0x04),
    };
    entry.head.get(at).is_some_and(|flags| flags & bit != 0)
}

/// Actions of an entry that does not jump, and their spelling in `iptables -S` behind the `known` conditions.
pub(super) fn outcome(
    verdict: Option<Verdict>,
    entry: &Entry<'_>,
    known: &[Match],
) -> Option<(Vec<Action>, String)> {
    let other = |name: &str| {
        let words = format!("-j {name}");
        (vec![Action::Unknown(words.clone())], words)
    };
    let target = match verdict {
        Some(Verdict::Accept) => Target::Accept,
        Some(Verdict::Drop) => Target::Drop,
        Some(Verdict::Return) => Target::Return,
        Some(Verdict::Queue) => return Some(other("QUEUE")),
        Some(Verdict::Jump(_)) => return None,
        None => {
            let (name, revision, info) = extension(entry.target)?;
            match known_target(name, revision, info) {
                Some(target) => target,
                None => return Some(other(&lossy(name))),
            }
        }
    };
    Some((Action::of(&target, Dialect::Iptables), text::target(&target, known)))
}

pub(crate) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn unknown(name: &str) -> Condition {
    Condition::Unknown(format!("-m {name}"))
}

/// The text of a rule as `iptables -S` lists it, but for what is unknown, which goes last.
pub(super) fn spell(conditions: &[Condition], known: &[Match], target: String) -> String {
    let unknown = conditions.iter().filter_map(|condition| match condition {
        Condition::Known(_) => None,
        Condition::Unknown(words) => Some(words.clone()),
    });
    let words = known.iter().map(text::condition).chain(unknown).chain([target]);
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Name, revision and structure of a match or target.
fn extension(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (header, info) = bytes.split_at_checked(EXTENSION_HEADER)?;
    Some((name(header.get(2..31)?), *header.get(31)?, info))
}

/// All conditions of an entry.
pub(super) fn conditions(family: Family, entry: &Entry<'_>) -> Option<Vec<Condition>> {
    let mut found = Vec::new();
    head(family, entry.head, &mut found)?;
    let mut rest = entry.matches;
    while !rest.is_empty() {
        let length = usize::from(u16_at(rest, 0)?);
        let (one, others) = rest.split_at_checked(length)?;
        let (name, revision, info) = extension(one)?;
        match known_match(name, revision, info) {
            Some(known) => found.extend(known.into_iter().map(Condition::Known)),
            None => found.push(unknown(&lossy(name))),
        }
        rest = others;
    }
    Some(found)
}

fn head(family: Family, bytes: &[u8], found: &mut Vec<Condition>) -> Option<()> {
    let layout = Head::of(family);
    let flags = *bytes.get(layout.flags + 1)?;
    let sense = |bit: u8| if flags & bit == 0 { Sense::Is } else { Sense::Not };
    let part = |at: usize, length: usize| bytes.get(at..at + length);
    let interface = |number: usize| {
        Some((part(layout.interfaces + 16 * number, 16)?, part(layout.interfaces + 16 * (number + 2), 16)?))
    };
    for (number, bit) in [(0, inverted::IN), (1, inverted::OUT)] {
        let (name, mask) = interface(number)?;
        if mask.iter().all(|byte| *byte == 0) {
            continue;
        }
        let name = interface_name(name, mask);
        found.push(match (sense(bit), number) {
            (Sense::Not, _) => unknown("! interface"),
            (Sense::Is, 0) => Condition::Known(Match::InInterface(name.into())),
            (Sense::Is, _) => Condition::Known(Match::OutInterface(name.into())),
        });
    }
    let protocol = match (u16_at(bytes, layout.protocol)?, sense(inverted::PROTOCOL)) {
        (0, _) => None,
        (number, Sense::Is) if number < 256 => u8::try_from(number)
            .ok()
            .map(|number| Condition::Known(Match::Protocol(Protocol::from_number(number)))),
        _ => Some(unknown("protocol")),
    };
    found.extend(protocol);
    for (number, bit) in [(0, inverted::SOURCE), (1, inverted::DESTINATION)] {
        let address = part(layout.address * number, layout.address)?;
        let mask = part(layout.address * (number + 2), layout.address)?;
        if mask.iter().all(|byte| *byte == 0) && sense(bit) == Sense::Is {
            continue;
        }
        found.push(match (cidr(address, mask), number) {
            (None, _) => unknown("address mask"),
            (Some(cidr), 0) => Condition::Known(Match::Source(sense(bit), cidr)),
            (Some(cidr), _) => Condition::Known(Match::Destination(sense(bit), cidr)),
        });
    }
    Some(())
}

/// The name as it was written: one whose NUL is not compared stands for all that begin with it.
fn interface_name(name: &[u8], mask: &[u8]) -> String {
    let compared = mask.iter().take_while(|byte| **byte != 0).count();
    let whole = self::name(name);
    let name = lossy(whole.get(..compared).unwrap_or(whole));
    if compared > whole.len() { name } else { name + "+" }
}

fn cidr(address: &[u8], mask: &[u8]) -> Option<Cidr> {
    let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
    let is_prefix = mask.iter().zip(0_u32..).all(|(byte, at)| {
        let bits = ones.saturating_sub(8 * at).min(8);
        u32::from(*byte) == 0xff_u32 & !(0xff_u32 >> bits)
    });
    let address = match *address {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
    };
    is_prefix.then_some(Cidr { address, length: u8::try_from(ones).ok()? })
}

fn not(inverted: bool) -> Sense {
    if inverted { Sense::Not } else { Sense::Is }
}

/// The conditions of an extension that our rules use, too.
pub(crate) fn known_match(name: &[u8], revision: u8, info: &[u8]) -> Option<Vec<Match>> {
    match (name, revision) {
        // No option and no flags between the ports and what is negated.
        (b"tcp", 0) if info.get(8..11)? == [0; 3] => ports(info, *info.get(11)?),
        (b"udp", 0) => ports(info, *info.get(8)?),
        (b"owner", 1) => owner(info),
        (b"multiport", 1) => {
            let count = usize::from(*info.get(1)?);
            let ports = (0..count).map(|index| u16_at(info, 2 + 2 * index)).collect::<Option<Vec<_>>>()?;
            let no_ranges = info.get(32..47)?.iter().all(|flag| *flag == 0);
            let inverted = *info.get(47)? != 0;
            // 1: only the destination counts.
            (*info.first()? == 1 && no_ranges).then(|| vec![Match::DestinationPorts(not(inverted), ports)])
        }
        (b"conntrack", 3) => conntrack(info),
        (b"mark", 1) if u32_at(info, 4)? == u32::MAX => {
            Some(vec![Match::Mark(not(*info.get(8)? != 0), u32_at(info, 0)?)])
        }
        (b"connmark", 1) if u32_at(info, 4)? == u32::MAX && *info.get(8)? == 0 => {
            Some(vec![Match::ConnMark(u32_at(info, 0)?)])
        }
        _ => None,
    }
}

/// `struct xt_tcp` and `struct xt_udp` begin alike: source ports, destination ports.
fn ports(info: &[u8], inverted: u8) -> Option<Vec<Match>> {
    let mut found = Vec::new();
    for (at, bit) in [(0, 1), (4, 2)] {
        let sense = not(inverted & bit != 0);
        let port = match (u16_at(info, at)?, u16_at(info, at + 2)?) {
            (0, u16::MAX) if sense == Sense::Is => continue,
            (low, high) if low == high => Port::One(low),
            (low, high) => Port::Range(low, high),
        };
        found.push(if at == 0 {
            Match::SourcePort(sense, port)
        } else {
            Match::DestinationPort(sense, port)
        });
    }
    Some(found)
}

/// `struct xt_owner_match_info`
fn owner(info: &[u8]) -> Option<Vec<Match>> {
    let (asked, inverted) = (*info.get(16)?, *info.get(17)?);
    let mut found = Vec::new();
    for (bit, at) in [(1, 0), (2, 8)] {
        if asked & bit == 0 {
            continue;
        }
        let (low, high) = (u32_at(info, at)?, u32_at(info, at + 4)?);
        let id = (low == high).then_some(Id::Number(low))?;
        let owner = if bit == 1 { Owner::Uid(id) } else { Owner::Gid(id) };
        found.push(Match::Owner(not(inverted & bit != 0), owner));
    }
    (asked & !3 == 0).then_some(found)
}

/// `struct xt_conntrack_mtinfo3`, if only states count.
fn conntrack(info: &[u8]) -> Option<Vec<Match>> {
    let (asked, inverted, bits) = (u16_at(info, 146)?, u16_at(info, 148)? & 1, u16_at(info, 150)?);
    // Bits 6 and 7 are no states (SNAT, DNAT); bit 8 is untracked, which nf_tables has in bit 6.
    let states = CtStates::from_bits(u32::from(bits & 0x0f | (bits & 0x100) >> 2))?;
    let only_states = asked & !0x2000 == 1 && bits & !0x10f == 0;
    let states = if inverted == 0 { states } else { states.inverted() };
    only_states.then(|| vec![Match::Conntrack(states)])
}

/// The targets that our rules use, too.
pub(crate) fn known_target(name: &[u8], revision: u8, info: &[u8]) -> Option<Target> {
    let port = |at: usize| u16_at(info, at).map(u16::from_be);
    match (name, revision, info.len()) {
        (b"REDIRECT", 0, 24) if port(16)? == port(18)? => Some(Target::Redirect { port: port(16)? }),
        (b"REDIRECT", 0, 40) if port(36)? == port(38)? => Some(Target::Redirect { port: port(36)? }),
        (b"MARK", 2, _) if u32_at(info, 4)? == u32::MAX => Some(Target::SetMark(u32_at(info, 0)?)),
        (b"TPROXY", 1, _)
            if u32_at(info, 0)? == u32::MAX && info.get(8..24)?.iter().all(|byte| *byte == 0) =>
        {
            Some(Target::Tproxy { mark: u32_at(info, 4)?, port: port(24)? })
        }
        // Revision 2 has a shift in front of the mode.
        (b"CONNMARK", 1, _) => connmark(info, *info.get(12)?),
        (b"CONNMARK", 2, _) if u16_at(info, 12)? == 0 => connmark(info, *info.get(14)?),
        (b"CT", 1 | 2, _) if u16_at(info, 0)? == 0 && u32_at(info, 4)? == 0 => {
            Some(Target::CtZone(u16_at(info, 2)?))
        }
        _ => None,
    }
}

fn connmark(info: &[u8], mode: u8) -> Option<Target> {
    let whole = u32_at(info, 4)? == u32::MAX && u32_at(info, 8)? == u32::MAX;
    match mode {
        1 if whole => Some(Target::SaveMark),
        2 if whole => Some(Target::RestoreMark),
        _ => None,
    }
}
