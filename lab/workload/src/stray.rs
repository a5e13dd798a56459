// SPDX-License-Identifier: Apache-2.0
//! Sends a TCP segment of a connection that does not exist, and says whether the far side's TCP saw it. That nothing came
//! back is known, not waited for: a connection attempt that is sent behind the segment is answered after it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use cluster::{Segment, Stray, StrayEnding};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Attempts behind the segment. Two, one after the other: the first could overtake it on another processor.
const FENCES: u16 = 2;

/// A TCP header without options.
const HEADER: usize = 20;

/// First of the ports that segments come from: away from what the kernel gives out.
const FIRST: u16 = 20_000;

/// How often there was a segment.
static SENT: AtomicU16 = AtomicU16::new(0);

/// Sends the segment, and says what came back.
pub fn send(stray: Stray, deadline: Duration) -> io::Result<StrayEnding> {
    let line = Line::open(SocketAddr::new(stray.destination, stray.port), deadline)?;
    // Others than those of the segments before: they may still be tracked.
    let own = FIRST + SENT.fetch_add(1, Ordering::Relaxed) % 2_000 * (1 + FENCES);
    let flags = match stray.segment {
        Segment::FinAck => FIN | ACK,
        Segment::SynAck => SYN | ACK,
    };
    line.send(own, flags)?;
    let mut ending = StrayEnding::Nothing;
    for fence in 1..=FENCES {
        line.send(own + fence, SYN)?;
        loop {
            let seen = line.receive()?;
            if seen.to == own && seen.flags & RST != 0 {
                ending = StrayEnding::Reset;
            } else if seen.to == own + fence {
                break;
            }
        }
    }
    Ok(ending)
}

/// A raw socket to one port of one host.
struct Line {
    /// A raw socket has the methods of a datagram socket.
    socket: UdpSocket,
    own: IpAddr,
    far: SocketAddr,
    until: Instant,
}

/// A received segment.
struct Seen {
    to: u16,
    flags: u8,
}

impl Line {
    fn open(far: SocketAddr, deadline: Duration) -> io::Result<Self> {
        let family = if far.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp)?;
        let socket = UdpSocket::from(fd);
        socket.connect(SocketAddr::new(far.ip(), 0))?;
        let own = socket.local_addr()?.ip();
        Ok(Self { socket, own, far, until: Instant::now() + deadline })
    }

    fn send(&self, from: u16, flags: u8) -> io::Result<()> {
        let acknowledges = u32::from(flags & ACK != 0);
        let mut header = Vec::with_capacity(HEADER);
        header.extend(from.to_be_bytes());
        header.extend(self.far.port().to_be_bytes());
        header.extend(1_u32.to_be_bytes());
        header.extend(acknowledges.to_be_bytes());
        header.extend([5 << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        let sum = checksum(self.own, self.far.ip(), &header).to_be_bytes();
        header[16..18].copy_from_slice(&sum);
        self.socket.send(&header).map(drop)
    }

    /// Next segment from the far side.
    fn receive(&self) -> io::Result<Seen> {
        let mut buffer = [0; 2048];
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            let length = self.socket.recv(&mut buffer)?;
            // IPv4 brings its own header along, IPv6 does not.
            let skip = if self.far.is_ipv4() { usize::from(buffer[0] & 0xf) * 4 } else { 0 };
            let Some(header) = buffer.get(skip..length).filter(|rest| rest.len() >= HEADER) else { continue };
            let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            if port(0) == self.far.port() {
                return Ok(Seen { to: port(2), flags: header[13] });
            }
        }
    }
}

/// Internet checksum of a segment and its pseudo header.
fn checksum(from: IpAddr, to: IpAddr, segment: &[u8]) -> u16 {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let length = u32::try_from(segment.len()).unwrap_or_default();
    let all = [octets(from), octets(to), vec![0, 6], segment.to_vec()].concat();
    let words = all.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = words.sum::<u32>() + length;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_with_its_checksum_sums_up_to_nothing() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let mut segment = vec![7_u8; HEADER];
            segment[16..18].copy_from_slice(&[0, 0]);
            let sum = checksum(from, to, &segment);
            segment[16..18].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(checksum(from, to, &segment), 0);
        }
    }
}
