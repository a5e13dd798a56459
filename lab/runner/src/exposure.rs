// SPDX-License-Identifier: Apache-2.0
//! Exposure: packets that the rules which a pod wants would have redirected or dropped, and that got past. Pure; the one place that says what counts.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use cluster::hand::{Direction, Flow, Packet, Transport};
use cluster::traffic::{CALLED, PAST, SENDER_PORTS};
use redirect::packet::{Connection, Hook, Layer4, Outcome};
use redirect::ruleset::Family;
use redirect::verdict::verdict;
use serde::{Deserialize, Serialize};

use crate::pod::Pod;

/// Port where nobody listens (discard): what is sent there and got past is one packet.
pub const NOBODY: u16 = 9;
/// Port of resolvers; at the pod that packets are counted at there is none.
pub const DNS: u16 = 53;
/// Ports that packets which count have one of.
pub const COUNTED: Range<u16> = PAST..SENDER_PORTS.end;
/// User and group of a pod's sender.
const SENDER: (u32, u32) = (1000, 1000);

/// An attempt to get past a pod's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// A connection of its sender, to nobody.
    Connection,
    /// A question of its sender, over UDP.
    Question,
    /// A connection to it, which its sender asked for.
    Call,
}

/// What of a pod, or of all pods of a template, got past its rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exposure {
    /// Packets that got past, and connections to the pods.
    pub packets: usize,
    /// Pods that sent or got them, by their addresses.
    pub pods: usize,
    /// From the first of them until the rules held, in milliseconds: to the last one, and to the next that would have been sent.
    pub ms: u64,
}

impl Exposure {
    /// Of the packets at the pod that the senders send to. `every` is their interval.
    ///
    /// # Errors
    /// The pod wants no rules, or none that concern its sender: nothing could be exposed.
    pub fn of(packets: &[Packet], pod: &Pod, every: Duration) -> anyhow::Result<Self> {
        Self::among(packets, pod, every, |_| true)
    }

    /// The same of connections to the pod alone.
    ///
    /// # Errors
    /// As [`Exposure::of`].
    pub fn inbound(packets: &[Packet], pod: &Pod, every: Duration) -> anyhow::Result<Self> {
        Self::among(packets, pod, every, |attempt| attempt == Attempt::Call)
    }

    /// The same of what its sender sent alone.
    ///
    /// # Errors
    /// As [`Exposure::of`].
    pub fn outbound(packets: &[Packet], pod: &Pod, every: Duration) -> anyhow::Result<Self> {
        Self::among(packets, pod, every, |attempt| attempt != Attempt::Call)
    }

    fn among(
        packets: &[Packet],
        pod: &Pod,
        every: Duration,
        counts: impl Fn(Attempt) -> bool,
    ) -> anyhow::Result<Self> {
        let (mut pods, mut times) = (BTreeSet::new(), Vec::new());
        let mut judged = Vec::new();
        for packet in packets {
            let Some(attempt) = attempt(packet).filter(|attempt| counts(*attempt)) else { continue };
            let Flow { source, destination, .. } = packet.flow;
            let of = (attempt, source, destination);
            // Source ports mean nothing to rules, so that one verdict holds for all of them.
            let known = judged.iter().find(|(known, _)| *known == of);
            let concerned = match known {
                Some((_, concerned)) => *concerned,
                None => concerns(pod, attempt, source, destination)?,
            };
            if known.is_none() {
                judged.push((of, concerned));
            }
            if concerned {
                pods.insert(if attempt == Attempt::Call { destination } else { source });
                times.push(packet.at_ns);
            }
        }
        let span = times.iter().max().zip(times.iter().min()).map(|(last, first)| last - first);
        let time = span.map_or(Duration::ZERO, |span| Duration::from_nanos(span) + every);
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { packets: times.len(), pods: pods.len(), ms })
    }
}

/// The attempt that a packet shows to have got past: one of a sender where it arrives, or one of the caller.
fn attempt(packet: &Packet) -> Option<Attempt> {
    let own = |source| SENDER_PORTS.contains(&source);
    match (packet.direction, packet.flow.transport) {
        (Direction::In, Transport::Tcp { source, destination: NOBODY }) if own(source) => {
            Some(Attempt::Connection)
        }
        (Direction::In, Transport::Udp { source, destination: DNS }) if own(source) => {
            Some(Attempt::Question)
        }
        (Direction::Out, Transport::Udp { source: PAST, .. }) => Some(Attempt::Call),
        _ => None,
    }
}

/// True if the rules that the pod wants do not let it through.
///
/// # Errors
/// It wants none.
pub fn concerns(pod: &Pod, attempt: Attempt, source: IpAddr, destination: IpAddr) -> anyhow::Result<bool> {
    let port = SENDER_PORTS.start;
    let (hook, layer4, own, owner) = match attempt {
        Attempt::Connection => {
            (Hook::Output, Layer4::Tcp { source: port, destination: NOBODY }, source, Some(SENDER))
        }
        Attempt::Question => {
            (Hook::Output, Layer4::Udp { source: port, destination: DNS }, source, Some(SENDER))
        }
        Attempt::Call => {
            (Hook::Prerouting, Layer4::Tcp { source: port, destination: CALLED }, destination, None)
        }
    };
    let rules = redirect::generate::ruleset(&pod.config(&[own])?)?;
    let packet = redirect::packet::Packet {
        hook,
        source,
        destination,
        layer4,
        interface: "eth0".into(),
        uid: owner.map(|(uid, _)| uid),
        gid: owner.map(|(_, gid)| gid),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    };
    Ok(verdict(&rules, &packet).outcome != Outcome::Untouched)
}

/// An address of a family that a pod could have.
#[must_use]
pub fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 0, 0, 1]),
        Family::V6 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// Connections and questions of a pod's senders, as the last of them said: it says each power of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    pub sent: u64,
    /// Those that a proxy answered, of the kind of which it answered fewer.
    pub answered: u64,
}

impl Said {
    /// Reads a line of a sender.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let (sent, answered) = line.strip_prefix("sent ")?.split_once(", answered ")?;
        Some(Self { sent: sent.parse().ok()?, answered: answered.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use cluster::traffic::CALLER;

    use super::*;

    const EVERY: Duration = Duration::from_millis(5);

    fn packet(at_ms: u64, source: &str, port: u16, direction: Direction) -> Packet {
        let (source, destination) = (source.parse().unwrap(), "10.200.1.9".parse().unwrap());
        let transport = Transport::Tcp { source: port, destination: NOBODY };
        let flow = Flow { source, destination, transport };
        Packet { at_ns: at_ms * 1_000_000, interface: "eth0".to_owned(), direction, flow, length: 60 }
    }

    #[test]
    fn packets_of_the_sender_that_rules_would_have_redirected_count_where_they_arrive() {
        let seen = [
            packet(10, "10.200.1.2", 20_001, Direction::In),
            packet(15, "10.200.1.2", 20_002, Direction::In),
            packet(15, "10.200.1.2", 20_002, Direction::Out),
            packet(40, "10.200.1.3", 20_001, Direction::In),
            packet(99, "10.200.1.3", 40_000, Direction::In),
        ];
        let found = Exposure::of(&seen, &Pod::meshed("cart", "shop"), EVERY).unwrap();
        assert_eq!(found, Exposure { packets: 3, pods: 2, ms: 35 });
        assert_eq!(
            Exposure::of(&seen[4..], &Pod::meshed("cart", "shop"), EVERY).unwrap(),
            Exposure::default()
        );
    }

    #[test]
    fn what_rules_let_through_is_no_exposure() {
        let mut pod = Pod::meshed("cart", "shop");
        let excluded = "traffic.sidecar.istio.io/excludeOutboundPorts";
        pod.annotations.insert(excluded.to_owned(), NOBODY.to_string());
        let seen = [packet(10, "10.200.1.2", 20_001, Direction::In)];
        assert_eq!(Exposure::of(&seen, &pod, EVERY).unwrap(), Exposure::default());
        let concerned =
            |attempt| concerns(&pod, attempt, any(Family::V4), "10.200.1.9".parse().unwrap()).unwrap();
        assert!(!concerned(Attempt::Connection) && !concerned(Attempt::Question) && concerned(Attempt::Call));
        assert!(Exposure::of(&seen, &Pod::plain("web", "default"), EVERY).is_err());
    }

    #[test]
    fn questions_count_where_dns_is_to_be_captured() {
        let mut question = packet(10, "10.200.1.2", 20_001, Direction::In);
        question.flow.transport = Transport::Udp { source: 20_001, destination: DNS };
        let seen = [question, packet(15, "10.200.1.2", 20_002, Direction::In)];
        let mut pod = Pod::meshed("cart", "shop");
        assert_eq!(Exposure::of(&seen, &pod, EVERY).unwrap().packets, 1);
        let env = &mut pod.proxy.as_mut().unwrap().env;
        env.insert("ISTIO_META_DNS_CAPTURE".to_owned(), "true".to_owned());
        assert_eq!(Exposure::of(&seen, &pod, EVERY).unwrap(), Exposure { packets: 2, pods: 1, ms: 10 });
    }

    #[test]
    fn connections_to_the_pod_count_by_what_the_caller_sends_for_each() {
        let sent = |at_ms, source| {
            let mut packet = packet(at_ms, "10.200.1.9", 0, Direction::Out);
            packet.flow.destination = "10.200.1.2".parse().unwrap();
            packet.flow.transport = Transport::Udp { source, destination: 40_000 };
            packet
        };
        let seen = [sent(10, PAST), sent(20, PAST), sent(30, CALLER)];
        let mut pod = Pod::meshed("cart", "shop");
        assert_eq!(Exposure::of(&seen, &pod, EVERY).unwrap(), Exposure { packets: 2, pods: 1, ms: 15 });
        let excluded = "traffic.sidecar.istio.io/excludeInboundPorts";
        pod.annotations.insert(excluded.to_owned(), CALLED.to_string());
        assert_eq!(Exposure::of(&seen, &pod, EVERY).unwrap(), Exposure::default());
    }

    #[test]
    fn a_sender_says_how_many() {
        assert_eq!(Said::read("sent 64, answered 3"), Some(Said { sent: 64, answered: 3 }));
        assert_eq!(Said::read("ready app"), None);
    }
}
