// SPDX-License-Identifier: Apache-2.0
//! Course of a connection: every packet of it at every hook that it meets, with the effects of conntrack and routing
//! in between. [`Judge`] judges one packet at one hook; this follows the packet to where it ends and the answer back.
//!
//! It models what the kernel does between our rules: a packet to the pod itself is looped through `lo` and brings its conntrack
//! entry along, an entry belongs to a zone, an answer leaves with the address that its question was sent to, and a marked
//! packet is routed by its mark.

#[cfg(test)]
mod tests;
mod track;

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use redirect::host::{INBOUND_V6, loopback};
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet, Verdict};
use redirect::ruleset::{Cidr, Family};
use redirect::verdict::Judge;
use serde::{Deserialize, Serialize};

use track::{Direction, Tracker};

/// The loopback interface.
const LO: &str = "lo";

/// Owner of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
}

/// A link of the pod: one address, and what can be reached there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The pod's address on it, with the length of what is on the link.
    pub address: Cidr,
}

/// Inputs of a packet's path beside the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The links beside `lo`; in each family the first also leads everywhere else.
    pub links: Vec<Link>,
    /// The mark whose packets stay in the pod, for each family that has policy routes.
    pub routed_marks: Vec<(Family, u32)>,
    /// Answers where nothing is redirected.
    pub app: Owner,
    /// Answers on ports that rules redirect to.
    pub proxy: Owner,
    /// The ports that the proxy listens on.
    pub proxy_ports: Vec<u16>,
}

/// Course of a connection after its first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A question and an answer.
    Exchange,
    /// Packets both ways, until its end.
    Stream,
    /// A question that the kernel itself answers.
    Echo,
    /// A packet that conntrack cannot place, answered by a reset.
    Stray,
}

/// Where a first packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It left the pod for where it was addressed.
    Left,
    /// The socket that listens on this port of the pod got it.
    Delivered {
        /// The port that is listened on.
        port: u16,
        /// The address that the socket finds it sent to.
        local: SocketAddr,
    },
    /// A rule dropped it.
    Dropped,
}

/// All that is known of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// The verdict on each packet at each hook, in order.
    pub verdicts: Vec<Verdict>,
    /// Where the first packet ended.
    pub end: End,
    /// True if its sender gets a reply that it recognises.
    pub is_answered: bool,
}

impl Pod {
    /// The interface by which a packet to `destination` leaves.
    fn route(&self, destination: IpAddr, mark: u32) -> Cow<'static, str> {
        let family = Family::of(destination);
        let links = || self.links.iter().filter(|link| link.address.family() == family);
        if self.is_local(destination) || self.routed_marks.contains(&(family, mark)) {
            return LO.into();
        }
        let near = links().find(|link| redirect::verdict::is_within(destination, link.address));
        near.or_else(|| links().next()).map_or(LO.into(), |link| link.name.clone())
    }

    fn is_local(&self, address: IpAddr) -> bool {
        let helper = address == INBOUND_V6.address;
        helper || address.is_loopback() || self.links.iter().any(|link| link.address.address == address)
    }

    /// The address that REDIRECT writes into a packet that came in by `interface` (nf_nat_redirect_ipv4: the first one there).
    fn address_on(&self, interface: &str, family: Family) -> Option<IpAddr> {
        let mut links = self.links.iter();
        let found = links.find(|link| link.name == interface && link.address.family() == family);
        found.map(|link| link.address.address)
    }
}

/// Follows a connection from its first packet, whose interface, if it is sent by the pod, is for routing to decide.
#[must_use]
pub fn follow(judge: &Judge<'_>, pod: &Pod, first: &Packet, shape: Shape) -> Course {
    let tracker = Tracker::new(shape != Shape::Stray);
    let mut walk = Walk { judge, pod, tracker, verdicts: Vec::new() };
    let (end, outcome) = walk.pass(Direction::Forward, first.clone());
    let Some(answer) = walk.answer(first, shape, end, outcome) else {
        return Course { verdicts: walk.verdicts, end, is_answered: false };
    };
    let (is_answered, answer_end) = walk.returns(first, &answer);
    if shape == Shape::Stream && is_answered {
        walk.pass(Direction::Forward, first.clone());
        walk.pass(Direction::Back, answer);
    } else if shape == Shape::Stream {
        walk.reset(first, &answer, answer_end);
    }
    Course { verdicts: walk.verdicts, end, is_answered }
}

struct Walk<'a, 'r> {
    judge: &'a Judge<'r>,
    pod: &'a Pod,
    tracker: Tracker,
    verdicts: Vec<Verdict>,
}

impl Walk<'_, '_> {
    /// Takes a packet from its first hook to where it ends.
    fn pass(&mut self, direction: Direction, mut packet: Packet) -> (End, Outcome) {
        if packet.hook == Hook::Output {
            packet.interface = self.pod.route(packet.destination, packet.mark);
        }
        let judged = self.judge(direction, &mut packet);
        if judged.outcome == Outcome::Dropped {
            return (End::Dropped, Outcome::Dropped);
        }
        let redirected = self.tracker.redirected(direction, judged.zone);
        if packet.hook == Hook::Prerouting {
            return (self.arrive(&packet, &judged, redirected), judged.outcome);
        }
        match direction {
            Direction::Forward => readdress(&mut packet, redirected),
            Direction::Back => resource(&mut packet, redirected),
        }
        packet.mark = judged.mark;
        if self.pod.route(packet.destination, packet.mark) != LO {
            return (End::Left, judged.outcome);
        }
        packet.hook = Hook::Prerouting;
        packet.interface = LO.into();
        (packet.uid, packet.gid) = (None, None);
        packet.connmark = judged.connmark;
        let looped = self.judge.verdict(&packet);
        self.tracker.note(judged.zone, looped.connmark);
        let outcome = if looped.outcome == Outcome::Untouched { judged.outcome } else { looped.outcome };
        let end = self.arrive(&packet, &looped, None);
        self.verdicts.push(looped);
        (end, outcome)
    }

    /// Judges a packet at its first hook: its zone decides which connection it belongs to.
    fn judge(&mut self, direction: Direction, packet: &mut Packet) -> Verdict {
        let zone = self.judge.zone(packet);
        (packet.connection, packet.connmark) = self.tracker.find(direction, zone);
        let judged = self.judge.verdict(packet);
        self.tracker.note(zone, judged.connmark);
        if packet.connection == Connection::New
            && let Some(port) = judged.rewritten
        {
            let before = destination(packet);
            let family = packet.family();
            let here = match packet.hook {
                Hook::Output => Some(loopback(family)),
                Hook::Prerouting => self.pod.address_on(&packet.interface, family),
            };
            if let Some(here) = here {
                self.tracker.redirect(zone, before, SocketAddr::new(here, port));
            }
        }
        self.verdicts.push(judged.clone());
        judged
    }

    /// Where a packet ends that came in.
    fn arrive(&self, packet: &Packet, judged: &Verdict, redirected: Option<(SocketAddr, SocketAddr)>) -> End {
        match (judged.outcome, redirected) {
            (Outcome::Dropped, _) => End::Dropped,
            (Outcome::Intercepted { port }, _) => {
                let local = redirected.map_or_else(|| destination(packet), |(_, to)| to);
                End::Delivered { port, local }
            }
            // Without an address on that interface REDIRECT drops (nf_nat_redirect_ipv4).
            (Outcome::Redirected { .. }, None) => End::Dropped,
            (_, Some((_, to))) => End::Delivered { port: to.port(), local: to },
            // Packets that rules marked are routed by mark, even to a neighbour.
            _ if packet.interface == LO || self.pod.route(packet.destination, judged.mark) == LO => {
                End::Delivered { port: destination(packet).port(), local: destination(packet) }
            }
            _ => End::Left,
        }
    }

    /// The answer to a first packet that ended there, at its first hook.
    fn answer(&self, first: &Packet, shape: Shape, end: End, outcome: Outcome) -> Option<Packet> {
        let nobody = matches!(shape, Shape::Echo | Shape::Stray);
        let (hook, from, owner) = match (end, outcome) {
            (End::Dropped, _) => return None,
            // A listening socket discards what neither opens nor belongs to a connection.
            (_, Outcome::Intercepted { .. }) if shape == Shape::Stray => return None,
            (End::Left, _) => (Hook::Prerouting, destination(first), None),
            // IPv4 does not let a loopback address out (__mkroute_output).
            (End::Delivered { local: SocketAddr::V4(local), .. }, _)
                if local.ip().is_loopback() && self.pod.route(first.source, 0) != LO =>
            {
                return None;
            }
            (End::Delivered { port, local }, Outcome::Untouched) if !self.pod.proxy_ports.contains(&port) => {
                (Hook::Output, local, Some(self.pod.app))
            }
            (End::Delivered { local, .. }, _) => (Hook::Output, local, Some(self.pod.proxy)),
        };
        let owner = owner.filter(|_| !nobody);
        let far = self.pod.route(destination(first).ip(), 0);
        Some(Packet {
            hook,
            source: from.ip(),
            destination: first.source,
            layer4: swapped(first.layer4, from.port()),
            interface: far,
            uid: owner.map(|owner| owner.uid),
            gid: owner.map(|owner| owner.gid),
            connection: Connection::Established,
            mark: 0,
            connmark: 0,
        })
    }

    /// True if the sender recognises the reply; and its end.
    fn returns(&mut self, first: &Packet, answer: &Packet) -> (bool, End) {
        let (end, _) = self.pass(Direction::Back, answer.clone());
        let expected = match (first.hook, end) {
            (Hook::Output, End::Delivered { local, .. }) => local.ip() == first.source,
            // To where the packet came from, by way of the pod or from it.
            (Hook::Prerouting, End::Left) => true,
            _ => false,
        };
        (expected && self.tracker.is_one(), end)
    }

    /// Whoever gets the answer to a question that it did not ask resets the connection.
    fn reset(&mut self, first: &Packet, answer: &Packet, end: End) {
        let hook = match (answer.hook, end) {
            (Hook::Output, End::Left) => Hook::Prerouting,
            // IPv4 sends none from an address that is not its own (ip_send_unicast_reply).
            (Hook::Prerouting, End::Delivered { .. }) if answer.source.is_ipv6() => Hook::Output,
            _ => return,
        };
        let interface = self.pod.route(first.source, 0);
        self.pass(
            Direction::Forward,
            Packet { hook, interface, uid: None, gid: None, mark: 0, ..first.clone() },
        );
    }
}

fn destination(packet: &Packet) -> SocketAddr {
    let port = match packet.layer4 {
        Layer4::Tcp { destination, .. } | Layer4::Udp { destination, .. } => destination,
        Layer4::Other(_) => 0,
    };
    SocketAddr::new(packet.destination, port)
}

/// Conntrack's rewriting of a destination, on the way there.
fn readdress(packet: &mut Packet, redirected: Option<(SocketAddr, SocketAddr)>) {
    if let Some((_, to)) = redirected {
        packet.destination = to.ip();
        if let Layer4::Tcp { destination, .. } | Layer4::Udp { destination, .. } = &mut packet.layer4 {
            *destination = to.port();
        }
    }
}

/// Conntrack's rewriting of a source, on the way back.
fn resource(packet: &mut Packet, redirected: Option<(SocketAddr, SocketAddr)>) {
    if let Some((before, _)) = redirected {
        packet.source = before.ip();
        if let Layer4::Tcp { source, .. } | Layer4::Udp { source, .. } = &mut packet.layer4 {
            *source = before.port();
        }
    }
}

fn swapped(layer4: Layer4, from: u16) -> Layer4 {
    match layer4 {
        Layer4::Tcp { source, .. } => Layer4::Tcp { source: from, destination: source },
        Layer4::Udp { source, .. } => Layer4::Udp { source: from, destination: source },
        Layer4::Other(protocol) => Layer4::Other(protocol),
    }
}
