// SPDX-License-Identifier: Apache-2.0
//! Matching packets against conditions.

use std::net::IpAddr;

use super::walk::State;
use crate::packet::{Connection, Hook, Layer4, Packet};
use crate::ruleset::{Cidr, CtStates, Dialect, Family, Id, Match, Owner, Port, Protocol, Sense};

/// True if `packet`, in the state that earlier rules left, meets `condition`.
pub(super) fn holds(condition: &Match, packet: &Packet, state: &State, dialect: Dialect) -> bool {
    match condition {
        Match::InInterface(name) => {
            packet.hook == Hook::Prerouting && is_named(&packet.interface, name, dialect)
        }
        Match::OutInterface(name) => {
            packet.hook == Hook::Output && is_named(&packet.interface, name, dialect)
        }
        Match::Family(family) => packet.source.is_ipv4() == (*family == Family::V4),
        Match::Source(sense, cidr) => in_range(*sense, packet.source, *cidr),
        Match::Destination(sense, cidr) => in_range(*sense, packet.destination, *cidr),
        Match::Protocol(protocol) | Match::PortProtocol(protocol) => {
            *protocol
                == match packet.layer4 {
                    Layer4::Tcp { .. } => Protocol::Tcp,
                    Layer4::Udp { .. } => Protocol::Udp,
                    Layer4::Other(number) => Protocol::from_number(number),
                }
        }
        Match::SourcePort(sense, port) => {
            ports(packet).is_some_and(|(source, _)| is_port(*sense, source, port))
        }
        Match::DestinationPort(sense, port) => {
            ports(packet).is_some_and(|(_, destination)| is_port(*sense, destination, port))
        }
        Match::DestinationPorts(sense, list) => {
            ports(packet).is_some_and(|(_, destination)| agrees(*sense, list.contains(&destination)))
        }
        Match::Owner(sense, owner) => is_owner(*sense, owner, packet, dialect),
        Match::Conntrack(states) => states.contains(match packet.connection {
            Connection::New => CtStates::NEW,
            Connection::Established => CtStates::ESTABLISHED,
            Connection::Related => CtStates::RELATED,
            Connection::Invalid => CtStates::INVALID,
        }),
        Match::Mark(sense, mark) => agrees(*sense, state.mark == *mark),
        // Without a conntrack entry there is no mark to compare, and the match fails (xt_connmark, connmark_mt).
        Match::ConnMark(mark) => packet.connection != Connection::Invalid && state.connmark == *mark,
    }
}

fn agrees(sense: Sense, fact: bool) -> bool {
    fact == (sense == Sense::Is)
}

fn is_named(interface: &str, name: &str, dialect: Dialect) -> bool {
    let any = match dialect {
        Dialect::Iptables => '+',
        Dialect::Nft => '*',
    };
    match name.strip_suffix(any) {
        Some(prefix) => interface.starts_with(prefix),
        None => interface == name,
    }
}

/// An address of the other family is in no range and outside of none: such a rule is not in that family's tables, and in
/// an inet table it asks for the family first.
pub(super) fn in_range(sense: Sense, address: IpAddr, cidr: Cidr) -> bool {
    let differ = match (address, cidr.address) {
        (IpAddr::V4(left), IpAddr::V4(right)) => u128::from(left.to_bits() ^ right.to_bits()) << 96,
        (IpAddr::V6(left), IpAddr::V6(right)) => left.to_bits() ^ right.to_bits(),
        _ => return false,
    };
    agrees(sense, differ.leading_zeros() >= u32::from(cidr.length))
}

fn ports(packet: &Packet) -> Option<(u16, u16)> {
    match packet.layer4 {
        Layer4::Tcp { source, destination } | Layer4::Udp { source, destination } => {
            Some((source, destination))
        }
        Layer4::Other(_) => None,
    }
}

/// False in both senses for a token that is no port: no kernel has such a rule.
fn is_port(sense: Sense, port: u16, wanted: &Port) -> bool {
    wanted.bounds().is_some_and(|(low, high)| agrees(sense, (low..=high).contains(&port)))
}

/// A packet without a local socket (forwarded, a reset or an ICMP error that the kernel sends by itself) has no owner.
/// xt_owner's `owner_mt` then returns `(match ^ invert) == 0`: it holds exactly where every condition of it is inverted, so
/// `! --uid-owner N` holds and `--uid-owner N` does not. nft's `meta skuid`/`skgid` breaks off the rule in both senses.
/// A name is known to nobody here, so it is nobody's.
fn is_owner(sense: Sense, owner: &Owner, packet: &Packet, dialect: Dialect) -> bool {
    let (found, wanted) = match owner {
        Owner::Uid(id) => (packet.uid, id),
        Owner::Gid(id) => (packet.gid, id),
    };
    match (found, wanted) {
        (None, _) => sense == Sense::Not && dialect == Dialect::Iptables,
        (Some(found), Id::Number(wanted)) => agrees(sense, found == *wanted),
        (Some(_), Id::Name(_)) => sense == Sense::Not,
    }
}
