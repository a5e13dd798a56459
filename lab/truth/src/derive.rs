// SPDX-License-Identifier: Apache-2.0
//! The packets of a configuration: one aimed at each rule, the ordinary ones that every pod must deal with, and random ones made
//! of the addresses, ports, users and groups that the configuration speaks of.

mod pool;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use redirect::Config;
use redirect::config::DNS_PORT;
use redirect::host::loopback;
use redirect::host::{INBOUND_V4, INBOUND_V6};
use redirect::ruleset::{
    Chain, Cidr, CtStates, Family, Id, Match, Owner as RuleOwner, Port, Protocol, Rule, Ruleset, Sense, Table,
};

use crate::flow::Owner;
use crate::net::{self, Place, stranger};
use crate::packet::{Kind, Spec};
use crate::random::Random;
use pool::{Pool, around_range};

/// The app's user and group.
pub const APP: Owner = Owner { uid: 1000, gid: 1000 };

/// A port that nobody ever listens on, not even for the moment that a process which another thread starts holds copies of our
/// sockets: a listener says nothing to a stray.
const UNHEARD: u16 = 9;

/// Maximum number of packets aimed at rules, so that hundreds of rules leave room for other packets.
const AIMED: usize = 80;

/// The packets of a configuration, at least `count`, in an order that the seed decides.
#[must_use]
pub fn packets(config: &Config, rules: &Ruleset, count: usize, random: &mut Random) -> Vec<Spec> {
    let deriver = Deriver { config, pool: Pool::of(config) };
    let mut aimed = deriver.aimed(rules);
    random.shuffle(&mut aimed);
    aimed.truncate(AIMED);
    let mut seen = HashSet::new();
    let mut all: Vec<Spec> = aimed.into_iter().chain(deriver.ordinary()).collect();
    all.retain(|spec| is_sendable(spec) && seen.insert(spec.clone()));
    // More than enough attempts: two draws in three are new.
    for _ in 0..count * 20 {
        if all.len() >= count {
            break;
        }
        let spec = deriver.any(random);
        if is_sendable(&spec) && seen.insert(spec.clone()) {
            all.push(spec);
        }
    }
    random.shuffle(&mut all);
    all
}

/// True if the lab can send it: to one host, in no special-purpose range, and not on the lab's own links.
fn is_sendable(spec: &Spec) -> bool {
    let destination = spec.destination.ip();
    if spec.source.is_ipv4() != destination.is_ipv4() || spec.destination.port() == 0 {
        return false;
    }
    // The proxy itself has that address and port.
    if spec.source_port == Some(DNS_PORT) && spec.source.is_loopback() {
        return false;
    }
    let own = spec.place() == Place::Pod;
    // From outside nobody reaches loopback, and a guest does not either: the kernel drops such packets before any rule of ours.
    if own {
        let is_one =
            !matches!(destination, IpAddr::V4(v4) if v4.is_loopback() && matches!(v4.octets()[3], 0 | 255));
        return is_one && (spec.from == Place::Pod || !destination.is_loopback());
    }
    let to_guest = destination == net::guest(spec.family()) && spec.kind == Kind::Echo;
    spec.from != Place::Outside && (to_guest || is_host(destination))
}

fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, third, last] = v4.octets();
            let links = first == 10 && (second == 8 || second == 9) && third == 0;
            (1..224).contains(&first) && first != 127 && !links && !matches!(last, 0 | 255)
        }
        // Global unicast and unique local addresses, without the lab's own.
        IpAddr::V6(v6) => {
            let [first, ..] = v6.segments();
            (0x2000..0xfe00).contains(&first) && first != 0xfd08 && first != 0xfd09
        }
    }
}

struct Deriver<'a> {
    config: &'a Config,
    pool: Pool,
}

impl Deriver<'_> {
    fn families(&self) -> [Family; 2] {
        [Family::V4, Family::V6]
    }

    fn proxy(&self) -> Owner {
        proxy(self.config)
    }

    fn spec(&self, from: Place, kind: Kind, to: (IpAddr, u16)) -> Spec {
        let destination = SocketAddr::new(to.0, to.1);
        let family = Family::of(to.0);
        let source = match from {
            Place::Outside => stranger(family),
            Place::Guest => net::guest(family),
            Place::Pod if to.0.is_loopback() => loopback(family),
            Place::Pod if to.0 == net::gate(family) || to.0 == net::guest(family) => net::gate(family),
            Place::Pod => net::pod(family),
        };
        Spec { from, kind, source, source_port: None, destination, sender: APP, mark: 0 }
    }

    /// One packet for each rule, with everything that the rule asks for.
    fn aimed(&self, rules: &Ruleset) -> Vec<Spec> {
        let mut all = Vec::new();
        for rule in &rules.rules {
            for family in self.families() {
                if rule.scope.covers(family) {
                    all.push(self.aim(rule, family));
                }
            }
        }
        all
    }

    fn aim(&self, rule: &Rule, family: Family) -> Spec {
        let inbound = match rule.chain {
            Chain::Prerouting
            | Chain::IstioInbound
            | Chain::IstioDivert
            | Chain::IstioTproxy
            | Chain::IstioDrop => true,
            Chain::IstioInRedirect => rule.table == Table::Nat,
            _ => false,
        };
        let mut spec = if inbound {
            self.spec(Place::Outside, Kind::Tcp, (net::pod(family), 8080))
        } else {
            self.spec(Place::Pod, Kind::Tcp, (stranger(family), 8080))
        };
        for condition in &rule.matches {
            self.meet(condition, &mut spec);
        }
        spec
    }

    fn meet(&self, condition: &Match, spec: &mut Spec) {
        let family = spec.family();
        let port = spec.destination.port();
        match condition {
            Match::InInterface(name) if name == net::GUEST => {
                *spec = self.spec(Place::Guest, spec.kind, (stranger(family), port));
            }
            Match::InInterface(name) | Match::OutInterface(name) if name == "lo" => {
                *spec = self.spec(Place::Pod, spec.kind, (net::pod(family), port));
            }
            Match::Source(Sense::Is, cidr)
                if cidr.address == INBOUND_V4.address || cidr.address == INBOUND_V6.address =>
            {
                spec.source = cidr.address;
            }
            Match::Destination(Sense::Is, cidr) => {
                let sender = spec.sender;
                *spec = self.spec(spec.from, spec.kind, (within(cidr), port));
                spec.sender = sender;
            }
            Match::Protocol(Protocol::Udp) | Match::PortProtocol(Protocol::Udp) => spec.kind = Kind::Udp,
            Match::DestinationPort(Sense::Is, Port::One(port) | Port::Range(port, _)) => {
                spec.destination.set_port(*port);
            }
            Match::SourcePort(Sense::Is, Port::One(port)) => spec.source_port = Some(*port),
            Match::Owner(Sense::Is, RuleOwner::Uid(Id::Number(uid))) => spec.sender.uid = *uid,
            Match::Owner(Sense::Is, RuleOwner::Gid(Id::Number(gid))) => spec.sender.gid = *gid,
            Match::Conntrack(CtStates::INVALID) => {
                spec.kind = Kind::Stray;
                spec.destination.set_port(UNHEARD);
            }
            Match::Mark(Sense::Is, mark) if spec.from == Place::Pod => spec.mark = *mark,
            _ => {}
        }
    }

    /// Packets for every pod, whatever its configuration.
    fn ordinary(&self) -> Vec<Spec> {
        let proxy = self.proxy();
        let mut all = Vec::new();
        for family in self.families() {
            let (own, far, lo) = (net::pod(family), stranger(family), loopback(family));
            let helper = if family == Family::V4 { INBOUND_V4.address } else { INBOUND_V6.address };
            let out = |kind, to| self.spec(Place::Pod, kind, to);
            let of_proxy = |spec| Spec { sender: proxy, ..spec };
            all.extend([
                out(Kind::Tcp, (far, 443)),
                of_proxy(out(Kind::Tcp, (far, 443))),
                out(Kind::Udp, (far, 53)),
                of_proxy(out(Kind::Udp, (far, 53))),
                out(Kind::Tcp, (own, 8080)),
                of_proxy(out(Kind::Tcp, (own, 8080))),
                Spec { source: helper, ..of_proxy(out(Kind::Tcp, (own, 8080))) },
                out(Kind::Tcp, (lo, 8080)),
                self.spec(Place::Outside, Kind::Tcp, (own, 8080)),
                self.spec(Place::Outside, Kind::Tcp, (own, self.config.inbound_tunnel_port)),
                self.spec(Place::Outside, Kind::Udp, (own, 8080)),
                self.spec(Place::Outside, Kind::Stray, (own, UNHEARD)),
                self.spec(Place::Outside, Kind::Echo, (own, 1)),
                self.spec(Place::Guest, Kind::Tcp, (far, 443)),
                out(Kind::Echo, (net::guest(family), 1)),
            ]);
            if self.config.dns.is_on() {
                // The rules on the proxy's user let this one through to those on its group.
                let sender = Owner { uid: APP.uid, gid: proxy.gid };
                all.push(Spec { sender, ..out(Kind::Tcp, (own, 53)) });
            }
            // A proxy that keeps the client's address runs as root, and marks what it sends on to the app.
            let routed = self.config.needs_policy_routes() && (family == Family::V4 || self.config.ipv6);
            if routed {
                let sender = Owner { uid: 0, gid: proxy.gid };
                let (source, mark) = (far, self.config.tproxy_mark);
                all.push(Spec { source, mark, sender, ..out(Kind::Tcp, (own, 8080)) });
            }
        }
        all
    }

    /// Anything, of what the configuration speaks of.
    fn any(&self, random: &mut Random) -> Spec {
        let pool = &self.pool;
        let host = *random.pick(&pool.hosts).unwrap_or(&stranger(Family::V4));
        let family = Family::of(host);
        let port = *random.pick(&pool.ports).unwrap_or(&80);
        let kind = match random.below(12) {
            0..=6 => Kind::Tcp,
            7..=9 => Kind::Udp,
            10 => Kind::Echo,
            _ => Kind::Stray,
        };
        let (from, to) = match random.below(10) {
            0..=3 => (Place::Pod, host),
            4 => (Place::Pod, net::pod(family)),
            5 => (Place::Pod, loopback(family)),
            6 => (Place::Guest, if random.once_in(3) { net::pod(family) } else { host }),
            _ => (Place::Outside, net::pod(family)),
        };
        // A stray of the pod itself would be answered within the pod: there is nothing to see of it.
        let kind = if kind == Kind::Stray && from == Place::Pod { Kind::Tcp } else { kind };
        let port = if kind == Kind::Stray { UNHEARD } else { port };
        let mut spec = self.spec(from, kind, (to, port));
        let uid = *random.pick(&pool.uids).unwrap_or(&APP.uid);
        let gid = *random.pick(&pool.gids).unwrap_or(&APP.gid);
        spec.sender = match random.below(5) {
            0 => APP,
            1 => self.proxy(),
            2 => Owner { uid, gid: APP.gid },
            3 => Owner { uid: APP.uid, gid },
            _ => Owner { uid, gid },
        };
        spec
    }
}

/// An address of a range that the lab can send to, if it has one.
fn within(cidr: &Cidr) -> IpAddr {
    let around = around_range(cidr);
    around.iter().copied().find(|address| is_host(*address)).unwrap_or(cidr.address)
}

/// A packet over each link, in each family.
#[must_use]
pub fn probes() -> Vec<Spec> {
    let config = Config::default();
    let deriver = Deriver { config: &config, pool: Pool::of(&config) };
    let each = |family| {
        let over = |from, to| deriver.spec(from, Kind::Udp, (to, 8080));
        [over(Place::Outside, net::pod(family)), over(Place::Guest, stranger(family))]
    };
    [Family::V4, Family::V6].into_iter().flat_map(each).collect()
}

/// The ports that the proxy listens on.
#[must_use]
pub fn proxy_ports(config: &Config) -> Vec<u16> {
    let mut ports = vec![config.proxy_port, config.inbound_capture_port, DNS_PORT];
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The proxy: the first of its users that is a number, and the first such group.
#[must_use]
pub fn proxy(config: &Config) -> Owner {
    let first = |ids: &[Id]| {
        let found = ids.iter().find_map(|id| match id {
            Id::Number(id) => Some(*id),
            Id::Name(_) => None,
        });
        found.unwrap_or(redirect::config::PROXY_ID)
    };
    Owner { uid: first(&config.proxy_uids), gid: first(&config.proxy_gids) }
}
