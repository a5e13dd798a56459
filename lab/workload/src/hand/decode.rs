// SPDX-License-Identifier: Apache-2.0
//! The flow of an IP packet, from its headers. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cluster::hand::{Flow, Transport};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const ICMP_V6: u8 = 58;

/// The flow of a packet that begins with an IP header; `None` if it is not of IP, or cut short.
#[must_use]
pub fn flow(packet: &[u8]) -> Option<Flow> {
    match packet.first()? >> 4 {
        4 => v4(packet),
        6 => v6(packet),
        _ => None,
    }
}

fn v4(packet: &[u8]) -> Option<Flow> {
    let address = |at: usize| Some(Ipv4Addr::from(bytes::<4>(packet, at)?).into());
    let length = usize::from(packet.first()? & 0xf) * 4;
    let protocol = *packet.get(9)?;
    let offset = u16::from_be_bytes(bytes(packet, 6)?) & 0x1fff;
    let behind = packet.get(length.max(20)..)?;
    let transport = if offset == 0 { transport(protocol, behind)? } else { Transport::Other(protocol) };
    Some(Flow { source: address(12)?, destination: address(16)?, transport })
}

fn v6(packet: &[u8]) -> Option<Flow> {
    let address = |at: usize| Some(IpAddr::from(Ipv6Addr::from(bytes::<16>(packet, at)?)));
    let (source, destination) = (address(8)?, address(24)?);
    let (mut next, mut behind) = (*packet.get(6)?, packet.get(40..)?);
    loop {
        let length = match next {
            // Hop-by-hop, routing, destination options (RFC 8200).
            0 | 43 | 60 => 8 + usize::from(*behind.get(1)?) * 8,
            FRAGMENT if u16::from_be_bytes(bytes(behind, 2)?) >> 3 == 0 => 8,
            FRAGMENT => {
                return Some(Flow { source, destination, transport: Transport::Other(*behind.first()?) });
            }
            _ => return Some(Flow { source, destination, transport: transport(next, behind)? }),
        };
        (next, behind) = (*behind.first()?, behind.get(length..)?);
    }
}

fn transport(protocol: u8, header: &[u8]) -> Option<Transport> {
    let port = |at: usize| Some(u16::from_be_bytes(bytes(header, at)?));
    Some(match protocol {
        TCP => Transport::Tcp { source: port(0)?, destination: port(2)? },
        UDP => Transport::Udp { source: port(0)?, destination: port(2)? },
        ICMP | ICMP_V6 => Transport::Icmp { kind: *header.first()?, code: *header.get(1)? },
        other => Transport::Other(other),
    })
}

fn bytes<const N: usize>(of: &[u8], at: usize) -> Option<[u8; N]> {
    of.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of IPv4 without options, and what follows it.
    fn of_v4(protocol: u8, offset: u16, behind: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0];
        packet.extend(offset.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(behind);
        packet
    }

    fn of_v6(next: u8, behind: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        packet.extend(behind);
        packet
    }

    #[test]
    fn ports_are_behind_options_and_extension_headers() {
        let tcp = Transport::Tcp { source: 0x1234, destination: 443 };
        let ports = [0x12, 0x34, 1, 187];
        let plain = flow(&of_v4(TCP, 0, &ports)).unwrap();
        assert_eq!(plain.transport, tcp);
        assert_eq!((plain.source, plain.destination), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        let mut with_options = of_v4(TCP, 0, &[1, 1, 1, 1]);
        with_options[0] = 0x46;
        with_options.extend(ports);
        assert_eq!(flow(&with_options).unwrap().transport, tcp);
        assert_eq!(flow(&of_v6(TCP, &ports)).unwrap().transport, tcp);
        let hop_by_hop = [&[TCP, 0, 0, 0, 0, 0, 0, 0][..], &ports].concat();
        assert_eq!(flow(&of_v6(0, &hop_by_hop)).unwrap().transport, tcp);
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        assert_eq!(flow(&of_v4(UDP, 185, &[0; 8])).unwrap().transport, Transport::Other(UDP));
        let later = [UDP, 0, 0, 8, 0, 0, 0, 0, 9, 9, 9, 9];
        assert_eq!(flow(&of_v6(FRAGMENT, &later)).unwrap().transport, Transport::Other(UDP));
        let first = [UDP, 0, 0, 1, 0, 0, 0, 0, 0, 53, 0, 54];
        let udp = Transport::Udp { source: 53, destination: 54 };
        assert_eq!(flow(&of_v6(FRAGMENT, &first)).unwrap().transport, udp);
    }

    #[test]
    fn icmp_has_type_and_code() {
        let unreachable = Transport::Icmp { kind: 3, code: 1 };
        assert_eq!(flow(&of_v4(ICMP, 0, &[3, 1, 0, 0])).unwrap().transport, unreachable);
        let solicitation = Transport::Icmp { kind: 135, code: 0 };
        assert_eq!(flow(&of_v6(ICMP_V6, &[135, 0])).unwrap().transport, solicitation);
    }

    #[test]
    fn what_is_cut_short_has_no_flow() {
        let whole = of_v6(0, &[TCP, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        assert!((0..whole.len()).all(|length| flow(&whole[..length]).is_none()));
        assert!(flow(&whole).is_some());
        assert!(flow(&[0x25; 40]).is_none());
    }
}
