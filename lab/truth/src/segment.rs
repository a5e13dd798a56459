// SPDX-License-Identifier: Apache-2.0
//! The few bytes that raw sockets send and get: an ICMP echo, a TCP segment that belongs to nothing, and what kernels answer.

use std::net::{IpAddr, SocketAddr};

/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// Length of a TCP header without options, as its own field says it (in words, in the high four bits).
const NO_OPTIONS: u8 = 5 << 4;
const FIN: u8 = 0x01;
const RST: u8 = 0x04;

/// An echo request. The kernel writes ICMPv6's checksum itself.
#[must_use]
pub fn echo(is_v6: bool, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut message = vec![if is_v6 { 128 } else { 8 }, 0, 0, 0, high, low, 0, 1];
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// True if a message is the reply to [`echo`].
#[must_use]
pub fn is_reply(is_v6: bool, message: &[u8], id: u16) -> bool {
    message.first() == Some(if is_v6 { &129 } else { &0 }) && message.get(4..6) == Some(&id.to_be_bytes())
}

/// A segment with FIN and nothing else: no connection has such a one, so conntrack cannot place it (tcp_error: an invalid
/// combination of flags), and a stack without a listener there answers it with a reset.
#[must_use]
pub fn stray(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut segment = Vec::with_capacity(20);
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, NO_OPTIONS, FIN, 4, 0, 0, 0, 0, 0]);
    let sum = checksum(&[&octets(from.ip()), &octets(to.ip()), &[0, TCP, 0, 20], &segment]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// True if a segment is the reset of a [`stray`].
#[must_use]
pub fn is_reset(segment: &[u8], from: u16, to: u16) -> bool {
    segment.get(..2) == Some(&from.to_be_bytes())
        && segment.get(2..4) == Some(&to.to_be_bytes())
        && segment.get(13).is_some_and(|flags| flags & RST != 0)
}

/// Payload of an IPv4 packet; a raw IPv6 socket leaves the header out.
#[must_use]
pub fn body(packet: &[u8]) -> &[u8] {
    let words = packet.first().map_or(0, |first| usize::from(first & 0x0f));
    packet.get(words * 4..).unwrap_or_default()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The internet checksum over parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_over_what_holds_one_is_zero() {
        let (from, to) = ("10.0.0.1:7".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let segment = stray(from, to);
        assert_eq!(checksum(&[&octets(from.ip()), &octets(to.ip()), &[0, TCP, 0, 20], &segment]), 0);
        assert_eq!(checksum(&[&echo(false, 77)]), 0);
    }

    #[test]
    fn only_the_answer_is_an_answer() {
        let mut reply = echo(false, 77);
        assert!(!is_reply(false, &reply, 77));
        reply[0] = 0;
        assert!(is_reply(false, &reply, 77) && !is_reply(false, &reply, 78));
        let mut reset = stray("10.0.0.2:9".parse().unwrap(), "10.0.0.1:7".parse().unwrap());
        assert!(!is_reset(&reset, 9, 7));
        reset[13] = RST;
        assert!(is_reset(&reset, 9, 7) && !is_reset(&reset, 7, 9));
        assert_eq!(body(&[0x45; 24]), [0x45; 4]);
    }
}
