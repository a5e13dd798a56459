// SPDX-License-Identifier: Apache-2.0
//! A rule's message and its expressions, in the order of iptables-nft: interfaces, protocol, addresses, the other conditions in
//! text order, counter, target.

use std::net::IpAddr;

use redirect::ruleset::{Cidr, Family, Match, Port, Protocol, Rule, Sense, Target};

use super::extension::{self, ConnMark};
use super::{EncodeError, Unencodable, begin_message, command, family_number};
use crate::nft::{self, attribute, header, meta, operation, verdict};
use crate::wire::{APPEND, CREATE, Writer};

/// `IFNAMSIZ` without the NUL.
const INTERFACE_LENGTH: usize = 15;

const TCP: u8 = 6;
const UDP: u8 = 17;

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
    let mut rule = Expressions { out, family, protocol: protocol(wanted), count: 0 };
    let written = rule.all(wanted);
    let count = rule.count;
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
        Match::Protocol(Protocol::Tcp) => Some(TCP),
        Match::Protocol(Protocol::Udp) => Some(UDP),
        _ => None,
    })
}

/// iptables writes what every rule can have first, whatever the order in the text; the rest keeps its order.
fn rank(condition: &Match) -> u8 {
    match condition {
        Match::InInterface(_) => 0,
        Match::OutInterface(_) => 1,
        Match::Protocol(_) => 2,
        Match::Source(..) => 3,
        Match::Destination(..) => 4,
        _ => 5,
    }
}

/// The expressions of one rule while they are written.
struct Expressions<'a> {
    out: &'a mut Writer,
    family: Family,
    protocol: Option<u8>,
    count: usize,
}

impl Expressions<'_> {
    fn all(&mut self, wanted: &Rule) -> Result<(), Unencodable> {
        for turn in 0..=5 {
            for condition in wanted.matches.iter().filter(|condition| rank(condition) == turn) {
                self.condition(condition)?;
            }
        }
        self.expression("counter", |out| {
            out.be64(attribute::COUNTER_BYTES, 0);
            out.be64(attribute::COUNTER_PACKETS, 0);
        });
        self.target(&wanted.target);
        Ok(())
    }

    fn condition(&mut self, condition: &Match) -> Result<(), Unencodable> {
        match condition {
            Match::InInterface(name) => self.interface(meta::IN_INTERFACE, name),
            Match::OutInterface(name) => self.interface(meta::OUT_INTERFACE, name),
            Match::Protocol(_) => {
                self.meta(meta::PROTOCOL);
                self.compare(operation::EQUAL, &[self.protocol.unwrap_or_default()]);
                Ok(())
            }
            Match::Source(sense, cidr) => self.address(Side::Source, *sense, *cidr),
            Match::Destination(sense, cidr) => self.address(Side::Destination, *sense, *cidr),
            Match::SourcePort(sense, port) => self.port(Side::Source, *sense, port),
            Match::DestinationPort(sense, port) => self.port(Side::Destination, *sense, port),
            Match::DestinationPorts(sense, ports) => {
                self.protocol.ok_or(Unencodable::PortWithoutProtocol)?;
                self.extension("match", "multiport", 1, &extension::multiport(*sense, ports)?);
                Ok(())
            }
            Match::Owner(sense, owner) => {
                self.extension("match", "owner", 1, &extension::owner(*sense, owner)?);
                Ok(())
            }
            Match::Conntrack(states) => {
                self.extension("match", "conntrack", 3, &extension::conntrack(*states));
                Ok(())
            }
            Match::Mark(sense, mark) => {
                self.meta(meta::MARK);
                self.compare(equality(*sense), &mark.to_ne_bytes());
                Ok(())
            }
            Match::ConnMark(mark) => {
                self.extension("match", "connmark", 1, &extension::connmark(*mark));
                Ok(())
            }
        }
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Accept => self.verdict(verdict::ACCEPT, None),
            Target::Drop => self.verdict(verdict::DROP, None),
            Target::Return => self.verdict(verdict::RETURN, None),
            Target::Jump(chain) => self.verdict(verdict::JUMP, Some(chain.name())),
            Target::Redirect { port } => {
                let (info, length) = extension::redirect(self.family, *port);
                self.extension("target", "REDIRECT", 0, info.get(..length).unwrap_or(&info));
            }
            Target::SetMark(mark) => self.extension("target", "MARK", 2, &extension::set_mark(*mark)),
            Target::Tproxy { mark, port } => {
                self.extension("target", "TPROXY", 1, &extension::tproxy(*mark, *port));
            }
            Target::SaveMark => {
                self.extension("target", "CONNMARK", 2, &extension::set_connmark(ConnMark::Save));
            }
            Target::RestoreMark => {
                self.extension("target", "CONNMARK", 2, &extension::set_connmark(ConnMark::Restore));
            }
            Target::CtZone(zone) => self.extension("target", "CT", 2, &extension::zone(*zone)),
        }
    }

    /// A name is compared with its NUL, a prefix (`eth+`) without; `+` alone loads and compares nothing, as iptables has it.
    fn interface(&mut self, key: u32, name: &str) -> Result<(), Unencodable> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > INTERFACE_LENGTH || bytes.contains(&0) {
            return Err(Unencodable::Interface(name.to_owned()));
        }
        self.meta(key);
        match bytes.split_last() {
            Some((b'+', [])) => {}
            Some((b'+', prefix)) => self.compare(operation::EQUAL, prefix),
            _ => {
                let mut whole = [0; INTERFACE_LENGTH + 1];
                whole[..bytes.len()].copy_from_slice(bytes);
                self.compare(operation::EQUAL, whole.get(..=bytes.len()).unwrap_or(&whole));
            }
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
        self.payload(header::NETWORK, offset, length);
        if !bits.is_multiple_of(8) {
            self.mask(mask.get(..length).unwrap_or(&mask));
        }
        self.compare(equality(sense), address.get(..length).unwrap_or(&address));
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
        self.payload(header::TRANSPORT, if side == Side::Source { 0 } else { 2 }, 2);
        let same = equality(sense);
        if low == high {
            self.compare(same, &low.to_be_bytes());
        } else if low == 0 {
            let outside = if sense == Sense::Is { operation::AT_MOST } else { operation::GREATER };
            self.compare(outside, &high.to_be_bytes());
        } else {
            self.expression("range", |out| {
                out.be32(attribute::RANGE_SOURCE, nft::REGISTER);
                out.be32(attribute::RANGE_OPERATION, same);
                value(out, attribute::RANGE_FROM, &low.to_be_bytes());
                value(out, attribute::RANGE_TO, &high.to_be_bytes());
            });
        }
        Ok(())
    }

    /// `--dport 0:65535` asks nothing but that there are ports, and is kept as an extension.
    fn any_port(&mut self, protocol: u8, sense: Sense) -> Result<(), Unencodable> {
        if sense == Sense::Not {
            return Err(Unencodable::NoPortLeft);
        }
        self.extension("match", if protocol == TCP { "tcp" } else { "udp" }, 0, &extension::any_port());
        Ok(())
    }

    fn expression(&mut self, name: &str, data: impl FnOnce(&mut Writer)) {
        let element = self.out.nest(attribute::LIST_ELEMENT);
        self.out.name(attribute::EXPRESSION_NAME, name.as_bytes());
        let open = self.out.nest(attribute::EXPRESSION_DATA);
        data(self.out);
        self.out.close(open);
        self.out.close(element);
        self.count += 1;
    }

    fn meta(&mut self, key: u32) {
        self.expression("meta", |out| {
            out.be32(attribute::META_KEY, key);
            out.be32(attribute::META_DESTINATION, nft::REGISTER);
        });
    }

    fn payload(&mut self, base: u32, offset: u32, length: usize) {
        self.expression("payload", |out| {
            out.be32(attribute::PAYLOAD_DESTINATION, nft::REGISTER);
            out.be32(attribute::PAYLOAD_BASE, base);
            out.be32(attribute::PAYLOAD_OFFSET, offset);
            out.be32(attribute::PAYLOAD_LENGTH, u32::try_from(length).unwrap_or(u32::MAX));
        });
    }

    fn mask(&mut self, mask: &[u8]) {
        const NOTHING: [u8; 16] = [0; 16];
        self.expression("bitwise", |out| {
            out.be32(attribute::BITWISE_SOURCE, nft::REGISTER);
            out.be32(attribute::BITWISE_DESTINATION, nft::REGISTER);
            out.be32(attribute::BITWISE_LENGTH, u32::try_from(mask.len()).unwrap_or(u32::MAX));
            value(out, attribute::BITWISE_MASK, mask);
            value(out, attribute::BITWISE_XOR, NOTHING.get(..mask.len()).unwrap_or(&NOTHING));
        });
    }

    fn compare(&mut self, operation: u32, data: &[u8]) {
        self.expression("cmp", |out| {
            out.be32(attribute::COMPARE_SOURCE, nft::REGISTER);
            out.be32(attribute::COMPARE_OPERATION, operation);
            value(out, attribute::COMPARE_DATA, data);
        });
    }

    fn verdict(&mut self, code: i32, chain: Option<&str>) {
        self.expression("immediate", |out| {
            out.be32(attribute::IMMEDIATE_DESTINATION, nft::VERDICT_REGISTER);
            let data = out.nest(attribute::IMMEDIATE_DATA);
            let verdict = out.nest(attribute::DATA_VERDICT);
            out.attribute(attribute::VERDICT_CODE, &code.to_be_bytes());
            if let Some(chain) = chain {
                out.name(attribute::VERDICT_CHAIN, chain.as_bytes());
            }
            out.close(verdict);
            out.close(data);
        });
    }

    fn extension(&mut self, kind: &str, name: &str, revision: u32, info: &[u8]) {
        self.expression(kind, |out| {
            out.name(attribute::EXTENSION_NAME, name.as_bytes());
            out.be32(attribute::EXTENSION_REVISION, revision);
            out.attribute(attribute::EXTENSION_INFO, info);
        });
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

/// A register's content.
fn value(out: &mut Writer, kind: u16, bytes: &[u8]) {
    let open = out.nest(kind);
    out.attribute(attribute::DATA_VALUE, bytes);
    out.close(open);
}
