// SPDX-License-Identifier: Apache-2.0
//! A rule's message and its expressions, in the order of iptables-nft: interfaces, protocol, addresses, the other conditions in
//! text order, counter, target.

use std::net::IpAddr;

use redirect::ruleset::{Cidr, Family, Match, Port, Protocol, Rule, Sense, Target};

use super::extension::{self, ConnMark};
use super::list::{self, Content, List, Template};
use super::{EncodeError, Unencodable, begin_message, command, family_number};
use crate::nft::{self, attribute, header, meta, operation, verdict};
use crate::wire::{APPEND, CREATE, Writer};

/// `IFNAMSIZ` without the NUL.
const INTERFACE_LENGTH: usize = 15;

const TCP: u8 = 6;
const UDP: u8 = 17;

// Each with the revision that iptables 1.8.9 picks, and the lengths of the whole and of its structure.
const ANY_TCP: Template<56, 16> = list::extension("match", "tcp", 0);
const ANY_UDP: Template<56, 16> = list::extension("match", "udp", 0);
const OWNER: Template<68, 24> = list::extension("match", "owner", 1);
const MULTIPORT: Template<96, 48> = list::extension("match", "multiport", 1);
const CONNTRACK: Template<216, 168> = list::extension("match", "conntrack", 3);
const CONNMARK: Template<64, 16> = list::extension("match", "connmark", 1);
const REDIRECT_V4: Template<72, 24> = list::extension("target", "REDIRECT", 0);
const REDIRECT_V6: Template<88, 40> = list::extension("target", "REDIRECT", 0);
const SET_MARK: Template<52, 8> = list::extension("target", "MARK", 2);
const SET_CONNMARK: Template<64, 16> = list::extension("target", "CONNMARK", 2);
const TPROXY: Template<76, 32> = list::extension("target", "TPROXY", 1);
const CT: Template<112, 72> = list::extension("target", "CT", 2);

/// Where a rule goes in the kernel's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind everything.
    End,
    /// Directly before the rule with this handle.
    Before(u64),
}

/// The message that adds a rule.
pub(crate) fn rule(
    out: &mut Writer,
    family: Family,
    wanted: &Rule,
    position: Position,
) -> Result<(), EncodeError> {
    let flags = if position == Position::End { CREATE | APPEND } else { CREATE };
    begin_message(out, nft::message::NEW_RULE, flags, family_number(family));
    out.name(attribute::RULE_TABLE, wanted.table.name().as_bytes());
    out.name(attribute::RULE_CHAIN, wanted.chain.name().as_bytes());
    list(out, family, wanted)?;
    // Without it the kernel refuses extensions that need to know the protocol (TPROXY, multiport).
    let open = out.nest(attribute::RULE_COMPAT);
    out.be32(attribute::RULE_COMPAT_PROTOCOL, protocol(wanted).map_or(0, u32::from));
    out.be32(attribute::RULE_COMPAT_FLAGS, 0);
    out.close(open);
    if let Position::Before(handle) = position {
        out.be64(attribute::RULE_POSITION, handle);
    }
    Ok(())
}

/// A rule's expressions alone, as the payload of their list.
///
/// # Errors
/// If the rule cannot be encoded.
pub fn expressions(family: Family, wanted: &Rule) -> Result<Vec<u8>, EncodeError> {
    let mut out = Writer::with_capacity(512);
    list(&mut out, family, wanted)?;
    Ok(out.first_payload().to_vec())
}

fn list(out: &mut Writer, family: Family, wanted: &Rule) -> Result<(), EncodeError> {
    let open = out.nest(attribute::RULE_EXPRESSIONS);
    let mut rule = Expressions { list: List::new(out), family, protocol: protocol(wanted) };
    let written = rule.all(wanted);
    let count = rule.list.count();
    out.close(open);
    written
        .and_then(|()| {
            let fits = count <= nft::MAX_EXPRESSIONS && !out.overlong();
            if fits { Ok(()) } else { Err(Unencodable::TooLong(count)) }
        })
        .map_err(|value| EncodeError::Rule { rule: command(family, wanted), value })
}

/// The number of the protocol that a rule names.
fn protocol(wanted: &Rule) -> Option<u8> {
    wanted.matches.iter().find_map(|condition| match condition {
        Match::Protocol(Protocol::Tcp) | Match::PortProtocol(Protocol::Tcp) => Some(TCP),
        Match::Protocol(Protocol::Udp) | Match::PortProtocol(Protocol::Udp) => Some(UDP),
        _ => None,
    })
}

/// iptables writes what every rule can have first, whatever the order in the text; the rest keeps its order.
fn rank(condition: &Match) -> u8 {
    match condition {
        Match::InInterface(_) => 0,
        Match::OutInterface(_) => 1,
        Match::Protocol(_) | Match::PortProtocol(_) => 2,
        Match::Source(..) => 3,
        Match::Destination(..) => 4,
        _ => 5,
    }
}

/// The expressions of one rule while they are written.
struct Expressions<'a> {
    list: List<'a>,
    family: Family,
    protocol: Option<u8>,
}

impl Expressions<'_> {
    fn all(&mut self, wanted: &Rule) -> Result<(), Unencodable> {
        for turn in 0..=5 {
            for condition in wanted.matches.iter().filter(|condition| rank(condition) == turn) {
                self.condition(condition)?;
            }
        }
        self.list.counter();
        self.target(&wanted.target);
        Ok(())
    }

    fn condition(&mut self, condition: &Match) -> Result<(), Unencodable> {
        match condition {
            Match::InInterface(name) => self.interface(meta::IN_INTERFACE, name),
            Match::OutInterface(name) => self.interface(meta::OUT_INTERFACE, name),
            Match::Protocol(_) | Match::PortProtocol(_) => {
                self.list.meta(meta::PROTOCOL);
                self.list.compare(operation::EQUAL, Content::new(&[self.protocol.unwrap_or_default()]));
                Ok(())
            }
            Match::Source(sense, cidr) => self.address(Side::Source, *sense, *cidr),
            Match::Destination(sense, cidr) => self.address(Side::Destination, *sense, *cidr),
            Match::SourcePort(sense, port) => self.port(Side::Source, *sense, port),
            Match::DestinationPort(sense, port) => self.port(Side::Destination, *sense, port),
            Match::DestinationPorts(sense, ports) => {
                self.protocol.ok_or(Unencodable::PortWithoutProtocol)?;
                self.list.extension(MULTIPORT, extension::multiport(*sense, ports)?);
                Ok(())
            }
            Match::Owner(sense, owner) => {
                self.list.extension(OWNER, extension::owner(*sense, owner)?);
                Ok(())
            }
            Match::Conntrack(states) => {
                self.list.extension(CONNTRACK, extension::conntrack(*states));
                Ok(())
            }
            Match::Mark(sense, mark) => {
                self.list.meta(meta::MARK);
                self.list.compare(equality(*sense), Content::new(&mark.to_ne_bytes()));
                Ok(())
            }
            Match::ConnMark(mark) => {
                self.list.extension(CONNMARK, extension::connmark(*mark));
                Ok(())
            }
        }
    }

    fn target(&mut self, target: &Target) {
        let list = &mut self.list;
        match target {
            Target::Accept => list.verdict(verdict::ACCEPT),
            Target::Drop => list.verdict(verdict::DROP),
            Target::Return => list.verdict(verdict::RETURN),
            Target::Jump(chain) => list.jump(chain.name()),
            Target::Redirect { port } => match self.family {
                Family::V4 => list.extension(REDIRECT_V4, extension::redirect_v4(*port)),
                Family::V6 => list.extension(REDIRECT_V6, extension::redirect_v6(*port)),
            },
            Target::SetMark(mark) => list.extension(SET_MARK, extension::set_mark(*mark)),
            Target::Tproxy { mark, port } => list.extension(TPROXY, extension::tproxy(*mark, *port)),
            Target::SaveMark => list.extension(SET_CONNMARK, extension::set_connmark(ConnMark::Save)),
            Target::RestoreMark => list.extension(SET_CONNMARK, extension::set_connmark(ConnMark::Restore)),
            Target::CtZone(zone) => list.extension(CT, extension::zone(*zone)),
        }
    }

    /// A name is compared with its NUL, a prefix (`eth+`) without; `+` alone loads and compares nothing, as iptables has it.
    fn interface(&mut self, key: u32, name: &str) -> Result<(), Unencodable> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > INTERFACE_LENGTH || bytes.contains(&0) {
            return Err(Unencodable::Interface(name.to_owned()));
        }
        self.list.meta(key);
        match bytes.split_last() {
            Some((b'+', [])) => {}
            Some((b'+', prefix)) => self.list.compare(operation::EQUAL, Content::new(prefix)),
            _ => self.list.compare(operation::EQUAL, Content::with_nul(bytes)),
        }
        Ok(())
    }

    /// A prefix of whole bytes loads just those; any other is masked; /0 is no condition.
    fn address(&mut self, side: Side, sense: Sense, cidr: Cidr) -> Result<(), Unencodable> {
        if cidr.family() != self.family {
            return Err(Unencodable::Family(cidr));
        }
        let mut mask = [0; 16];
        let mut address = [0; 16];
        let (whole, offset) = match cidr.address {
            IpAddr::V4(v4) => {
                address[..4].copy_from_slice(&v4.octets());
                (4, if side == Side::Source { 12 } else { 16 })
            }
            IpAddr::V6(v6) => {
                address = v6.octets();
                (16, if side == Side::Source { 8 } else { 24 })
            }
        };
        let bits = usize::from(cidr.length);
        if bits > whole * 8 {
            return Err(Unencodable::Prefix(cidr));
        }
        if bits == 0 {
            return if sense == Sense::Is { Ok(()) } else { Err(Unencodable::NoAddressLeft(cidr)) };
        }
        for (index, (mask, byte)) in mask.iter_mut().zip(&mut address).enumerate() {
            let kept = bits.saturating_sub(index * 8).min(8);
            *mask = u8::MAX.checked_shl(8 - u32::try_from(kept).unwrap_or(0)).unwrap_or(0);
            *byte &= *mask;
        }
        let length = if bits.is_multiple_of(8) { bits / 8 } else { whole };
        self.list.payload(header::NETWORK, offset, length);
        if !bits.is_multiple_of(8) {
            self.list.mask(Content::new(mask.get(..length).unwrap_or(&mask)));
        }
        self.list.compare(equality(sense), Content::new(address.get(..length).unwrap_or(&address)));
        Ok(())
    }

    fn port(&mut self, side: Side, sense: Sense, port: &Port) -> Result<(), Unencodable> {
        let protocol = self.protocol.ok_or(Unencodable::PortWithoutProtocol)?;
        let (low, high) = match port {
            Port::One(port) => (*port, *port),
            Port::Range(low, high) if low <= high => (*low, *high),
            Port::Range(low, high) => return Err(Unencodable::PortRange { low: *low, high: *high }),
            Port::Verbatim(token) => return Err(Unencodable::Port(token.clone())),
        };
        if (low, high) == (0, u16::MAX) {
            return self.any_port(protocol, sense);
        }
        self.list.payload(header::TRANSPORT, if side == Side::Source { 0 } else { 2 }, 2);
        let same = equality(sense);
        if low == high {
            self.list.compare(same, Content::new(&low.to_be_bytes()));
        } else if low == 0 {
            let outside = if sense == Sense::Is { operation::AT_MOST } else { operation::GREATER };
            self.list.compare(outside, Content::new(&high.to_be_bytes()));
        } else {
            self.list.range(same, low.to_be_bytes(), high.to_be_bytes());
        }
        Ok(())
    }

    /// `--dport 0:65535` asks nothing but that there are ports, and is kept as an extension.
    fn any_port(&mut self, protocol: u8, sense: Sense) -> Result<(), Unencodable> {
        if sense == Sense::Not {
            return Err(Unencodable::NoPortLeft);
        }
        let template = if protocol == TCP { ANY_TCP } else { ANY_UDP };
        self.list.extension(template, extension::any_port());
        Ok(())
    }
}

/// Which end of a packet's way a condition asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

fn equality(sense: Sense) -> u32 {
    match sense {
        Sense::Is => operation::EQUAL,
        Sense::Not => operation::NOT_EQUAL,
    }
}
