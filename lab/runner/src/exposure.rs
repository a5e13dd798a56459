// SPDX-License-Identifier: Apache-2.0
//! Exposure: packets that the rules which a pod wants would have redirected or dropped, and that got past. Pure; the one place that says what counts.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use cluster::hand::{Direction, Flow, Packet, Transport};
use cluster::traffic::SENDER_PORTS;
use redirect::packet::{Connection, Hook, Layer4, Outcome};
use redirect::ruleset::Family;
use redirect::verdict::verdict;
use serde::{Deserialize, Serialize};

use crate::pod::Pod;

/// Port where nobody listens (discard): what is sent there and got past is one packet.
pub const NOBODY: u16 = 9;
/// User and group of a pod's sender.
const SENDER: (u32, u32) = (1000, 1000);

/// What of a pod, or of all pods of a template, got past its rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exposure {
    /// Packets that got past.
    pub packets: usize,
    /// Pods that sent them, by their addresses.
    pub pods: usize,
    /// From the first of them until the rules held, in milliseconds: to the last one, and to the next that would have been sent.
    pub ms: u64,
}

impl Exposure {
    /// Of the packets that arrived where the senders send to. `every` is their interval.
    ///
    /// # Errors
    /// The pod wants no rules, or none that concern its sender: nothing could be exposed.
    pub fn of(packets: &[Packet], pod: &Pod, every: Duration) -> anyhow::Result<Self> {
        let (mut sources, mut times) = (BTreeSet::new(), Vec::new());
        let mut judged = None;
        for packet in packets.iter().filter(|packet| is_senders(packet)) {
            let Flow { source, destination, .. } = packet.flow;
            // Its ports mean nothing to rules, so that one verdict holds for all of them.
            let concerned = match judged {
                Some((of, concerned)) if of == (source, destination) => concerned,
                _ => concerns(pod, source, destination)?,
            };
            judged = Some(((source, destination), concerned));
            if concerned {
                sources.insert(source);
                times.push(packet.at_ns);
            }
        }
        let span = times.iter().max().zip(times.iter().min()).map(|(last, first)| last - first);
        let time = span.map_or(Duration::ZERO, |span| Duration::from_nanos(span) + every);
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { packets: times.len(), pods: sources.len(), ms })
    }
}

/// True for a packet of a sender, seen where it arrives.
fn is_senders(packet: &Packet) -> bool {
    let Transport::Tcp { source, destination } = packet.flow.transport else { return false };
    packet.direction == Direction::In && destination == NOBODY && SENDER_PORTS.contains(&source)
}

/// True if the rules that the pod wants do not let its sender through.
///
/// # Errors
/// It wants none.
pub fn concerns(pod: &Pod, source: IpAddr, destination: IpAddr) -> anyhow::Result<bool> {
    let rules = redirect::generate::ruleset(&pod.config(&[source])?)?;
    let packet = redirect::packet::Packet {
        hook: Hook::Output,
        source,
        destination,
        layer4: Layer4::Tcp { source: SENDER_PORTS.start, destination: NOBODY },
        interface: "eth0".into(),
        uid: Some(SENDER.0),
        gid: Some(SENDER.1),
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

/// Connections of a pod's senders, as the last of them said: it says each power of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    pub sent: u64,
    /// Of these, those that a proxy answered.
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
        assert!(!concerns(&pod, any(Family::V4), "10.200.1.9".parse().unwrap()).unwrap());
        assert!(Exposure::of(&seen, &Pod::plain("web", "default"), EVERY).is_err());
    }

    #[test]
    fn a_sender_says_how_many() {
        assert_eq!(Said::read("sent 64, answered 3"), Some(Said { sent: 64, answered: 3 }));
        assert_eq!(Said::read("ready app"), None);
    }
}
