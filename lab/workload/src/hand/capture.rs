// SPDX-License-Identifier: Apache-2.0
//! Packets on the interfaces of a network namespace, from a packet socket: what leaves is seen behind every rule, what comes before any.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, PipeReader};
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use cluster::hand::{Answer, Count, Counts, Direction, Flow, Network, Packet};
use nix::errno::Errno;
use nix::net::if_::if_nameindex;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};

use super::{Asker, decode, place, stops_before};

/// Buffer of the kernel: a hand that is held up by a busy machine loses nothing of what a test sends.
const BUFFER: usize = 8 << 20;
/// All headers of a packet; the rest is of no interest.
const HEADERS: usize = 256;
/// Flows that are told apart: a bound on memory, far above what a test sends.
const FLOWS: usize = 4096;
/// `PACKET_OUTGOING` of `linux/if_packet.h`.
const OUTGOING: u8 = 4;

/// Says each packet until it is stopped, and then how many there were.
pub(crate) async fn follow(
    network: Network,
    told: Told,
    asker: Asker,
    stopped: Option<PipeReader>,
) -> io::Result<Answer> {
    let work = move || {
        let socket = open()?;
        let interfaces = interfaces()?;
        let mut seen = Seen { told, interfaces, counts: BTreeMap::new(), others: 0, lost: 0 };
        asker.say(Ok(Answer::Following))?;
        while !stops_before(&socket, stopped.as_ref())? {
            seen.take_all(&socket, asker)?;
        }
        seen.take_all(&socket, asker)?;
        Ok(Answer::Counts(seen.sum()))
    };
    place::inside(network, work).await?
}

/// A socket that gets every packet of every interface, present and future, from the IP header on.
fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    // More than the system's limit takes a privilege that not every hand has.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER)?;
    }
    Ok(socket)
}

/// Names by index.
fn interfaces() -> io::Result<BTreeMap<usize, String>> {
    let all = if_nameindex()?;
    let named = all.iter().map(|one| (one.index() as usize, one.name().to_string_lossy().into_owned()));
    Ok(named.collect())
}

/// Packets that are said one by one.
pub(crate) struct Told {
    /// Their number.
    pub left: u32,
    /// A port that each has; any if there are none.
    pub ports: Option<Range<u16>>,
}

struct Seen {
    told: Told,
    interfaces: BTreeMap<usize, String>,
    counts: BTreeMap<(Flow, String, Direction), u64>,
    others: u64,
    lost: u64,
}

impl Seen {
    /// Takes what the kernel has.
    fn take_all(&mut self, socket: &OwnedFd, asker: Asker) -> io::Result<()> {
        loop {
            match self.take(socket) {
                Ok(Some(packet)) => self.count(packet, asker)?,
                Ok(None) => self.others += 1,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR | Errno::ENETDOWN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// One packet; `None` if it is not of IP.
    fn take(&mut self, socket: &OwnedFd) -> nix::Result<Option<Packet>> {
        let mut bytes = [0; HEADERS];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec, u32);
        // The length of the packet, not of what fits.
        let flags = MsgFlags::MSG_TRUNC;
        let message = recvmsg::<LinkAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let mut at = Duration::ZERO;
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampns(time) => at = time.into(),
                ControlMessageOwned::RxqOvfl(lost) => self.lost = lost.into(),
                _ => {}
            }
        }
        let (length, Some(from)) = (message.bytes, message.address) else { return Ok(None) };
        let there = bytes.get(..length.min(HEADERS)).unwrap_or_default();
        let Some(flow) = decode::flow(there) else { return Ok(None) };
        let index = from.ifindex();
        let named = self.interfaces.get(&index).cloned();
        Ok(Some(Packet {
            at_ns: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            interface: named.unwrap_or_else(|| format!("interface {index}")),
            direction: if from.pkttype() == OUTGOING { Direction::Out } else { Direction::In },
            flow,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        }))
    }

    fn count(&mut self, packet: Packet, asker: Asker) -> io::Result<()> {
        let key = (packet.flow, packet.interface.clone(), packet.direction);
        if self.counts.len() < FLOWS || self.counts.contains_key(&key) {
            *self.counts.entry(key).or_default() += 1;
        } else {
            self.others += 1;
        }
        let fits = self.told.ports.as_ref().is_none_or(|ports| packet.flow.transport.has_one_of(ports));
        if self.told.left == 0 || !fits {
            return Ok(());
        }
        self.told.left -= 1;
        asker.say(Ok(Answer::Packet(packet)))
    }

    fn sum(self) -> Counts {
        let count = |((flow, interface, direction), packets)| Count { flow, interface, direction, packets };
        Counts { flows: self.counts.into_iter().map(count).collect(), others: self.others, lost: self.lost }
    }
}
