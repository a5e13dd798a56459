// SPDX-License-Identifier: Apache-2.0
//! A rule's message, and what both dialects share. Which expressions it has is up to [`super::compat`] for tables of iptables and
//! to [`super::native`] for those of the native back end.

use redirect::ruleset::{Family, Id, Match, Port, Protocol, Rule, Sense};

use super::native::Sets;
use super::{EncodeError, List, Unencodable, begin_message, command, compat, native, set};
use crate::home::Home;
use crate::nft::{self, attribute, operation};
use crate::snapshot::NfFamily;
use crate::wire::{APPEND, CREATE, Writer};

/// `IFNAMSIZ` without the NUL.
const INTERFACE_LENGTH: usize = 15;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Where a rule goes in the kernel's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Behind everything.
    End,
    /// Directly before the rule with this handle.
    Before(u64),
}

/// The messages that add a rule: those of its sets, if it has any, and its own.
pub(crate) fn rule(
    out: &mut Writer,
    family: NfFamily,
    wanted: &Rule,
    position: Position,
) -> Result<(), EncodeError> {
    let home = Home { family, table: wanted.table };
    let sets = if home.is_native() { set::create(out, home, wanted) } else { Vec::new() };
    let flags = if position == Position::End { CREATE | APPEND } else { CREATE };
    begin_message(out, nft::message::NEW_RULE, flags, home.family.number());
    out.name(attribute::RULE_TABLE, home.table_name().as_bytes());
    out.name(attribute::RULE_CHAIN, home.chain_name(wanted.chain).as_bytes());
    list(out, family, wanted, Sets::Made(&sets))?;
    if !home.is_native() {
        // Without it the kernel refuses extensions that need to know the protocol (TPROXY, multiport).
        let open = out.nest(attribute::RULE_COMPAT);
        out.be32(attribute::RULE_COMPAT_PROTOCOL, protocol(wanted).map_or(0, u32::from));
        out.be32(attribute::RULE_COMPAT_FLAGS, 0);
        out.close(open);
    }
    if let Position::Before(handle) = position {
        out.be64(attribute::RULE_POSITION, handle);
    }
    Ok(())
}

/// A rule's expressions alone, as [`crate::snapshot::RuleState`] has them for a rule of a table of this family.
///
/// # Errors
/// If the rule cannot be encoded.
pub fn expressions(family: NfFamily, wanted: &Rule) -> Result<Vec<u8>, EncodeError> {
    let mut out = Writer::with_capacity(512);
    list(&mut out, family, wanted, Sets::SpelledOut)?;
    Ok(out.first_payload().to_vec())
}

fn list(out: &mut Writer, family: NfFamily, wanted: &Rule, sets: Sets<'_>) -> Result<(), EncodeError> {
    let open = out.nest(attribute::RULE_EXPRESSIONS);
    let mut list = List::new(out);
    let written = match family {
        NfFamily::Inet => native::write(&mut list, sets, wanted),
        NfFamily::Ip => compat::write(&mut list, Family::V4, wanted),
        NfFamily::Ip6 => compat::write(&mut list, Family::V6, wanted),
    };
    let count = list.count();
    out.close(open);
    written
        .and_then(|()| {
            let fits = count <= nft::MAX_EXPRESSIONS && !out.overlong();
            if fits { Ok(()) } else { Err(Unencodable::TooLong(count)) }
        })
        .map_err(|value| EncodeError::Rule { rule: command(family, wanted), value })
}

/// The number of the protocol that a rule names.
pub(super) fn protocol(wanted: &Rule) -> Option<u8> {
    wanted.matches.iter().find_map(|condition| match condition {
        Match::Protocol(Protocol::Tcp) | Match::PortProtocol(Protocol::Tcp) => Some(TCP),
        Match::Protocol(Protocol::Udp) | Match::PortProtocol(Protocol::Udp) => Some(UDP),
        Match::Protocol(Protocol::Other(number)) | Match::PortProtocol(Protocol::Other(number)) => {
            Some(*number)
        }
        _ => None,
    })
}

/// The ends of a port range; one port is a range of one.
pub(super) fn port_range(port: &Port) -> Result<(u16, u16), Unencodable> {
    port.bounds().ok_or_else(|| match port {
        Port::Range(low, high) => Unencodable::PortRange { low: *low, high: *high },
        other => Unencodable::Port(other.to_string()),
    })
}

/// The number of a user or group.
pub(super) fn number(id: &Id) -> Result<u32, Unencodable> {
    match id {
        Id::Number(u32::MAX) => Err(Unencodable::Id(u32::MAX)),
        Id::Number(number) => Ok(*number),
        Id::Name(name) => Err(Unencodable::Name(name.clone())),
    }
}

/// The bytes of an interface's name.
pub(super) fn interface(name: &str) -> Result<&[u8], Unencodable> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > INTERFACE_LENGTH || bytes.contains(&0) {
        return Err(Unencodable::Interface(name.to_owned()));
    }
    Ok(bytes)
}

/// End of a packet's way that a condition asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Side {
    /// Where the port is in a TCP or UDP header.
    pub(super) fn port_offset(self) -> u32 {
        match self {
            Self::Source => 0,
            Self::Destination => 2,
        }
    }
}

pub(super) fn equality(sense: Sense) -> u32 {
    match sense {
        Sense::Is => operation::EQUAL,
        Sense::Not => operation::NOT_EQUAL,
    }
}
