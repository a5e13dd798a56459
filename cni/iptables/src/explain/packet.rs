// SPDX-License-Identifier: Apache-2.0
//! A packet in a person's words: `DIRECTION PROTOCOL DESTINATION [WORD VALUE]…`.
//!
//! | direction | |
//! |---|---|
//! | `out` | a process of the pod sends it, elsewhere |
//! | `own` | a process of the pod sends it to the pod's own address |
//! | `loopback` | a process of the pod sends it to a loopback address |
//! | `in` | it arrives from elsewhere |
//!
//! The protocol is `tcp`, `udp` or `icmp`. The destination is `ADDRESS:PORT`, `[ADDRESS]:PORT`, for `icmp` an address; but for `out`
//! `:PORT` will do, and nothing at all for `icmp`. The words are `uid`, `gid`, `from` (an address, with or without a port), `iface`,
//! `mark`, `connmark` and `state` (`new`, `established`, `related`, `invalid`).

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use redirect::packet::{Connection, Hook, Layer4, Packet};

/// Default owner of a packet: an app, with a group of its own.
const APP: u32 = 1000;
/// Default source port.
const SOURCE_PORT: u16 = 40000;

/// Malformed packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read packet {text:?}: {reason}; for example: {EXAMPLE}")]
pub(super) struct PacketError {
    /// Input.
    pub(super) text: String,
    pub(super) reason: PacketReason,
}

/// Valid packet.
const EXAMPLE: &str = "'out tcp 10.1.2.3:443 uid 1000'";

/// Reason of a malformed packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PacketReason {
    #[error("{0:?} is no direction: use out, own, loopback or in")]
    Direction(String),
    #[error("{0:?} is no protocol: use tcp, udp or icmp")]
    Protocol(String),
    #[error("{0:?} is no destination: use ADDRESS:PORT, [ADDRESS]:PORT, or for icmp ADDRESS")]
    Destination(String),
    /// Unknown word.
    #[error("{0:?} means nothing here: use uid, gid, from, iface, mark, connmark or state")]
    Word(String),
    /// Malformed value.
    #[error("{value:?} is no value of {word}")]
    Value { word: String, value: String },
    /// An inbound packet has no owner here.
    #[error("what arrives from elsewhere has no {0} here")]
    Owner(&'static str),
    /// Families of source and destination differ.
    #[error("source and destination are not of one family")]
    Families,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    Own,
    Loopback,
    In,
}

/// Reads a packet of a pod with these addresses.
///
/// # Errors
/// The words are no packet.
pub(super) fn read(text: &str, own: &[IpAddr]) -> Result<Packet, PacketError> {
    let packet = words(text, own).map_err(|reason| PacketError { text: text.to_owned(), reason })?;
    Ok(packet)
}

fn words(text: &str, own: &[IpAddr]) -> Result<Packet, PacketReason> {
    let mut words = text.split_whitespace();
    let mut next = || words.next().unwrap_or_default();
    let direction = match next() {
        "out" => Direction::Out,
        "own" => Direction::Own,
        "loopback" => Direction::Loopback,
        "in" => Direction::In,
        other => return Err(PacketReason::Direction(other.to_owned())),
    };
    let protocol = next();
    if !matches!(protocol, "tcp" | "udp" | "icmp") {
        return Err(PacketReason::Protocol(protocol.to_owned()));
    }
    let mut rest: Vec<&str> = words.collect();
    let destination = if rest.is_empty() { "" } else { rest.remove(0) };
    let (destination, port) = endpoint(direction, protocol, destination, own)
        .ok_or_else(|| PacketReason::Destination(destination.to_owned()))?;
    let mut packet = plain(direction, destination, own);
    let mut source_port = SOURCE_PORT;
    for pair in rest.chunks(2) {
        let (word, value) =
            (pair.first().copied().unwrap_or_default(), pair.get(1).copied().unwrap_or_default());
        add(&mut packet, &mut source_port, (word, value))?;
    }
    if packet.source.is_ipv4() != destination.is_ipv4() {
        return Err(PacketReason::Families);
    }
    packet.layer4 = match protocol {
        "tcp" => Layer4::Tcp { source: source_port, destination: port },
        "udp" => Layer4::Udp { source: source_port, destination: port },
        _ => Layer4::Other(if destination.is_ipv4() { 1 } else { 58 }),
    };
    Ok(packet)
}

/// Address and port; where the direction says the address, the port is enough.
fn endpoint(direction: Direction, protocol: &str, text: &str, own: &[IpAddr]) -> Option<(IpAddr, u16)> {
    let implied = || match direction {
        Direction::Out => None,
        Direction::Own | Direction::In => own.first().copied(),
        Direction::Loopback => own.first().map(|own| loopback(own.is_ipv4())),
    };
    if protocol == "icmp" {
        return if text.is_empty() {
            implied().map(|address| (address, 0))
        } else {
            Some((text.parse().ok()?, 0))
        };
    }
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        return Some((endpoint.ip(), endpoint.port()));
    }
    let port = text.strip_prefix(':').unwrap_or(text).parse().ok()?;
    implied().map(|address| (address, port))
}

fn loopback(v4: bool) -> IpAddr {
    if v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// Packet with direction and destination only.
fn plain(direction: Direction, destination: IpAddr, own: &[IpAddr]) -> Packet {
    let v4 = destination.is_ipv4();
    // Addresses for documentation, where the pod has none of the family.
    let assumed: IpAddr = if v4 {
        Ipv4Addr::new(192, 0, 2, 1).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()
    };
    let peer: IpAddr = if v4 {
        Ipv4Addr::new(198, 51, 100, 1).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1).into()
    };
    let own = own.iter().copied().find(|address| address.is_ipv4() == v4).unwrap_or(assumed);
    let (hook, source, interface, owner) = match direction {
        Direction::Out => (Hook::Output, own, "eth0", Some(APP)),
        Direction::Own => (Hook::Output, own, "lo", Some(APP)),
        Direction::Loopback => (Hook::Output, loopback(v4), "lo", Some(APP)),
        Direction::In => (Hook::Prerouting, peer, "eth0", None),
    };
    Packet {
        hook,
        source,
        destination,
        layer4: Layer4::Other(0),
        interface: Cow::Borrowed(interface),
        uid: owner,
        gid: owner,
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    }
}

fn add(packet: &mut Packet, source_port: &mut u16, (word, value): (&str, &str)) -> Result<(), PacketReason> {
    let bad = || PacketReason::Value { word: word.to_owned(), value: value.to_owned() };
    let number = || {
        let parsed = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        parsed.map_err(|_| bad())
    };
    let owner = |name| match packet.hook {
        Hook::Output => number().map(Some),
        Hook::Prerouting => Err(PacketReason::Owner(name)),
    };
    match word {
        "uid" => packet.uid = owner("uid")?,
        "gid" => packet.gid = owner("gid")?,
        "mark" => packet.mark = number()?,
        "connmark" => packet.connmark = number()?,
        "iface" if !value.is_empty() => packet.interface = Cow::Owned(value.to_owned()),
        "from" => match (value.parse::<IpAddr>(), value.parse::<SocketAddr>()) {
            (Ok(address), _) => packet.source = address,
            (_, Ok(endpoint)) => (packet.source, *source_port) = (endpoint.ip(), endpoint.port()),
            _ => return Err(bad()),
        },
        "state" => {
            packet.connection = match value {
                "new" => Connection::New,
                "established" => Connection::Established,
                "related" => Connection::Related,
                "invalid" => Connection::Invalid,
                _ => return Err(bad()),
            };
        }
        "iface" => return Err(bad()),
        other => return Err(PacketReason::Word(other.to_owned())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<IpAddr> {
        ["10.9.0.2", "fd00:9::2"].map(|text| text.parse().unwrap()).to_vec()
    }

    fn packet(text: &str) -> Packet {
        read(text, &own()).unwrap()
    }

    #[test]
    fn directions_say_what_is_not_said() {
        let out = packet("out tcp 10.1.2.3:443 uid 7");
        assert_eq!(
            (out.hook, out.interface.as_ref(), out.uid, out.gid),
            (Hook::Output, "eth0", Some(7), Some(1000))
        );
        assert_eq!(out.source, own()[0]);
        assert_eq!(out.layer4, Layer4::Tcp { source: 40000, destination: 443 });
        let own_address = packet("own udp :53");
        assert_eq!((own_address.source, own_address.destination), (own()[0], own()[0]));
        assert_eq!(own_address.interface, "lo");
        let loopback = packet("loopback tcp [::1]:80 from [::6]:99");
        assert_eq!(loopback.source.to_string(), "::6");
        assert_eq!(loopback.layer4, Layer4::Tcp { source: 99, destination: 80 });
        let inbound = packet("in tcp 8080 iface net1 mark 0x539 connmark 1 state established");
        assert_eq!((inbound.hook, inbound.uid, inbound.interface.as_ref()), (Hook::Prerouting, None, "net1"));
        assert_eq!((inbound.mark, inbound.connmark, inbound.connection), (1337, 1, Connection::Established));
        assert_eq!(packet("out icmp 2001:db8::9").layer4, Layer4::Other(58));
        assert_eq!(packet("in icmp").layer4, Layer4::Other(1));
    }

    #[test]
    fn what_is_no_packet_is_refused_with_an_example() {
        for (text, part) in [
            ("", "\"\" is no direction"),
            ("up tcp 1.2.3.4:1", "\"up\" is no direction"),
            ("out sctp 1.2.3.4:1", "\"sctp\" is no protocol"),
            ("out tcp", "\"\" is no destination"),
            ("out tcp :443", "\":443\" is no destination"),
            ("out tcp 1.2.3.4", "\"1.2.3.4\" is no destination"),
            ("out tcp 1.2.3.4:70000", "is no destination"),
            ("out tcp 1.2.3.4:1 user 5", "\"user\" means nothing here"),
            ("out tcp 1.2.3.4:1 uid", "\"\" is no value of uid"),
            ("out tcp 1.2.3.4:1 uid bob", "\"bob\" is no value of uid"),
            ("in tcp :80 uid 5", "has no uid here"),
            ("out tcp 1.2.3.4:1 from fd00::1", "not of one family"),
            ("out tcp 1.2.3.4:1 state old", "\"old\" is no value of state"),
        ] {
            let error = read(text, &own()).unwrap_err().to_string();
            assert!(error.contains(part) && error.ends_with(EXAMPLE), "{text}: {error}");
        }
    }
}
