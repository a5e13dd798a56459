// SPDX-License-Identifier: Apache-2.0
//! A packet's whole way through the pod: the first packet at its hook, its arrival where it was redirected to the pod
//! itself, and its answer. Rules of raw and mangle meet all of these; the nat table only meets the first.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cluster::Transport;
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet, Verdict};
use redirect::ruleset::{Family, Ruleset};
use redirect::verdict::verdict;

/// The pod's interface.
const ETH0: &str = "eth0";
/// The loopback interface.
const LO: &str = "lo";
/// A port that clients get and no rule names.
const EPHEMERAL: u16 = 40_000;

/// Who owns a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
}

/// A first packet, with all that its way depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Where it meets the pod's rules.
    pub hook: Hook,
    /// TCP or UDP.
    pub transport: Transport,
    /// Its source address.
    pub source: IpAddr,
    /// Where it is addressed to.
    pub destination: SocketAddr,
    /// Whether it is addressed to the pod itself.
    pub to_itself: bool,
    /// The sending socket's owner.
    pub client: Owner,
    /// The owner of the socket in the pod that answers if nothing is redirected.
    pub app: Owner,
    /// The proxy's.
    pub proxy: Owner,
}

/// The loopback address of a family.
#[must_use]
pub fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

impl Flow {
    /// What becomes of the first packet, and of everything that follows from it, in order.
    #[must_use]
    pub fn walk(&self, rules: &Ruleset) -> Vec<Verdict> {
        let first = verdict(rules, &self.first());
        let (outcome, zone) = (first.outcome, first.zone);
        let mut verdicts = vec![first];
        let Some(server) = self.server(outcome) else { return verdicts };
        for packet in self.rest(outcome, server) {
            let judged = verdict(rules, &packet);
            // Conntrack looks for a connection in the packet's own zone: what belongs together and lands in another zone
            // begins a connection there, and meets the nat table. A packet from `lo` brings its entry along.
            let looped = packet.hook == Hook::Prerouting && packet.interface == LO;
            verdicts.push(if looped || judged.zone == zone {
                judged
            } else {
                verdict(rules, &Packet { connection: Connection::New, ..packet })
            });
        }
        verdicts
    }

    fn first(&self) -> Packet {
        let leaves = self.hook == Hook::Output;
        Packet {
            hook: self.hook,
            source: self.source,
            destination: self.destination.ip(),
            layer4: self.layer4(EPHEMERAL, self.destination.port()),
            interface: Cow::Borrowed(if self.to_itself { LO } else { ETH0 }),
            uid: leaves.then_some(self.client.uid),
            gid: leaves.then_some(self.client.gid),
            connection: Connection::New,
            mark: 0,
            connmark: 0,
        }
    }

    /// The address that answers; none if the packet is gone.
    fn server(&self, outcome: Outcome) -> Option<SocketAddr> {
        match (outcome, self.hook) {
            (Outcome::Untouched | Outcome::Intercepted { .. }, _) => Some(self.destination),
            (Outcome::Redirected { port }, Hook::Output) => {
                let family = if self.destination.is_ipv4() { Family::V4 } else { Family::V6 };
                Some(SocketAddr::new(loopback(family), port))
            }
            // REDIRECT takes the address of the interface that the packet came in by.
            (Outcome::Redirected { port }, Hook::Prerouting) => {
                Some(SocketAddr::new(self.destination.ip(), port))
            }
            (Outcome::Dropped, _) => None,
        }
    }

    /// The packets after the first: its arrival by `lo`, if it stays in the pod, and the answer's way back.
    fn rest(&self, outcome: Outcome, server: SocketAddr) -> Vec<Packet> {
        let redirected = matches!(outcome, Outcome::Redirected { .. });
        let owner = if redirected { self.proxy } else { self.app };
        match self.hook {
            Hook::Prerouting => vec![self.answer(server, owner, ETH0)],
            Hook::Output if self.to_itself || redirected => vec![
                Packet {
                    hook: Hook::Prerouting,
                    destination: server.ip(),
                    layer4: self.layer4(EPHEMERAL, server.port()),
                    interface: Cow::Borrowed(LO),
                    uid: None,
                    gid: None,
                    ..self.first()
                },
                self.answer(server, owner, LO),
                // On its way from OUTPUT to `lo` the answer's source became the address that the client knows.
                self.arrival(LO),
            ],
            Hook::Output => vec![self.arrival(ETH0)],
        }
    }

    fn answer(&self, server: SocketAddr, owner: Owner, interface: &'static str) -> Packet {
        Packet {
            hook: Hook::Output,
            source: server.ip(),
            destination: self.source,
            layer4: self.layer4(server.port(), EPHEMERAL),
            interface: Cow::Borrowed(interface),
            uid: Some(owner.uid),
            gid: Some(owner.gid),
            connection: Connection::Established,
            mark: 0,
            connmark: 0,
        }
    }

    fn arrival(&self, interface: &'static str) -> Packet {
        Packet {
            hook: Hook::Prerouting,
            source: self.destination.ip(),
            destination: self.source,
            layer4: self.layer4(self.destination.port(), EPHEMERAL),
            interface: Cow::Borrowed(interface),
            uid: None,
            gid: None,
            connection: Connection::Established,
            mark: 0,
            connmark: 0,
        }
    }

    fn layer4(&self, source: u16, destination: u16) -> Layer4 {
        match self.transport {
            Transport::Tcp => Layer4::Tcp { source, destination },
            Transport::Udp => Layer4::Udp { source, destination },
        }
    }
}

#[cfg(test)]
mod tests {
    use redirect::config::{Config, Dns};
    use redirect::generate::ruleset;
    use redirect::list::Selection;

    use super::*;

    const APP: Owner = Owner { uid: 1000, gid: 1000 };
    const PROXY: Owner = Owner { uid: 1337, gid: 1337 };

    fn rules(dns: Dns) -> Ruleset {
        let config = Config { dns, outbound_ranges_include: Selection::All, ..Config::default() };
        ruleset(&config).unwrap()
    }

    fn out(transport: Transport, port: u16) -> Flow {
        Flow {
            hook: Hook::Output,
            transport,
            source: "10.9.0.2".parse().unwrap(),
            destination: SocketAddr::new("10.9.0.3".parse().unwrap(), port),
            to_itself: false,
            client: APP,
            app: APP,
            proxy: PROXY,
        }
    }

    #[test]
    fn a_redirected_packet_is_followed_to_lo_and_back() {
        let verdicts = out(Transport::Tcp, 8080).walk(&rules(Dns::Off));
        assert_eq!(verdicts[0].outcome, Outcome::Redirected { port: 15001 });
        assert_eq!(verdicts.len(), 4);
        assert!(verdicts[1..].iter().all(|verdict| verdict.steps.is_empty()));
    }

    #[test]
    fn an_answer_in_another_zone_begins_a_connection() {
        let config = Config {
            dns: Dns::All,
            outbound_ports_exclude: vec![redirect::ruleset::Port::One(53)],
            ..Config::default()
        };
        let own = "10.9.0.2".parse().unwrap();
        let flow = Flow { destination: SocketAddr::new(own, 53), to_itself: true, ..out(Transport::Udp, 53) };
        let verdicts = flow.walk(&ruleset(&config).unwrap());
        assert_eq!((verdicts[0].outcome, verdicts[0].zone), (Outcome::Untouched, 2));
        assert!(verdicts[2].steps.iter().any(|step| step.table == redirect::ruleset::Table::Nat));
    }

    #[test]
    fn an_answer_of_captured_dns_meets_the_zone_of_the_proxy() {
        let verdicts = out(Transport::Udp, 53).walk(&rules(Dns::All));
        assert_eq!(verdicts[0].outcome, Outcome::Redirected { port: 15053 });
        let answer: Vec<_> = verdicts[2].steps.iter().map(|step| step.rule.as_str()).collect();
        assert!(answer.iter().any(|rule| rule.contains("--sport 15053")), "{answer:?}");
        let arrival: Vec<_> = verdicts[3].steps.iter().map(|step| step.rule.as_str()).collect();
        assert!(arrival.iter().any(|rule| rule.contains("--sport 53")), "{arrival:?}");
    }
}
