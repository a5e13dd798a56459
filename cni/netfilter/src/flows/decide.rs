// SPDX-License-Identifier: Apache-2.0
//! The fate of each open connection by the rules that are there now; pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use redirect::config::Config;
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::ruleset::{Id, Match, Owner, Ruleset, Target};
use redirect::verdict::Judge;

use super::conntrack::Entry;
use super::sockets::{Open, Sockets};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Decision about a connection. Entries and sockets go by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The rules leave it alone, or it goes through the proxy already.
    Keep,
    /// It depends on the group of its process, which is not known.
    Unknown,
    /// The rules would redirect it. Its entry is deleted, and its socket is closed where that does not suffice.
    End { entry: Option<usize>, close: Option<usize> },
}

/// A connection's fate, and the inode of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) fate: Fate,
    pub(super) inode: u64,
}

/// The namespace in which connections are judged.
pub(super) struct Scene<'a> {
    judge: Judge<'a>,
    /// Groups that rules name, and one that they do not.
    groups: Vec<u32>,
    /// A user that no rule names.
    stranger: u32,
    /// The proxy's users.
    proxies: BTreeSet<u32>,
    /// Mark of connections that TPROXY gave to the proxy.
    mark: Option<u32>,
    /// Name of each address's interface.
    interfaces: BTreeMap<IpAddr, String>,
    listening: &'a BTreeSet<u16>,
    entries: &'a [Entry],
    by_ends: BTreeMap<(u8, SocketAddr, SocketAddr), usize>,
    /// True if conntrack takes a packet in the middle of a connection for the first one.
    is_loose: bool,
}

/// Answer for all users and groups that a packet may be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirected {
    Always,
    Never,
    /// Of some.
    Sometimes,
}

/// What the rules do with a packet.
#[derive(Debug, Clone, Copy)]
struct Judged {
    redirected: Redirected,
    /// By TPROXY, which looks for the connection's own socket first.
    is_intercepted: bool,
    zone: u16,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        wanted: &'a Ruleset,
        config: &Config,
        interfaces: BTreeMap<IpAddr, String>,
        (listening, entries): (&'a BTreeSet<u16>, &'a [Entry]),
        is_loose: bool,
    ) -> Self {
        let conditions = || wanted.rules.iter().flat_map(|rule| &rule.matches);
        let named = |of: fn(&Owner) -> Option<&Id>| -> BTreeSet<u32> {
            let owners = conditions().filter_map(move |condition| match condition {
                Match::Owner(_, owner) => of(owner),
                _ => None,
            });
            owners.filter_map(number).collect()
        };
        let groups = named(|owner| match owner {
            Owner::Gid(id) => Some(id),
            Owner::Uid(_) => None,
        });
        let users = named(|owner| match owner {
            Owner::Uid(id) => Some(id),
            Owner::Gid(_) => None,
        });
        let stranger = (1..).find(|id| !groups.contains(id) && !users.contains(id)).unwrap_or(u32::MAX);
        let mark = wanted.rules.iter().find_map(|rule| match rule.target {
            Target::Tproxy { mark, .. } => Some(mark),
            _ => None,
        });
        let mut by_ends = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            for way in [entry.original, entry.reply] {
                by_ends.insert((way.protocol, way.source, way.destination), at);
            }
        }
        Self {
            judge: Judge::new(wanted),
            groups: groups.into_iter().chain([stranger]).collect(),
            stranger,
            proxies: config.proxy_uids.iter().filter_map(number).collect(),
            mark,
            interfaces,
            listening,
            entries,
            by_ends,
            is_loose,
        }
    }

    /// Fates of all connections. `known` has the groups of sockets by inode.
    pub(super) fn fates(&self, sockets: &Sockets, known: &BTreeMap<u64, u32>) -> Vec<Decided> {
        let open = sockets.open.iter().enumerate().filter(|(_, open)| open.is_tcp);
        let of_tcp = open.map(|(at, open)| Decided { fate: self.tcp(at, open, known), inode: open.inode });
        let of_udp = self.entries.iter().enumerate().filter(|(_, entry)| entry.original.protocol == UDP);
        let of_udp =
            of_udp.map(|(at, entry)| Decided { fate: self.udp(at, entry, sockets, known), inode: 0 });
        of_tcp.chain(of_udp).collect()
    }

    fn tcp(&self, at: usize, open: &Open, known: &BTreeMap<u64, u32>) -> Fate {
        let Open { local, remote, uid, inode, is_starting, .. } = *open;
        let is_inbound = self.listening.contains(&local.port());
        // Without a process the kernel ends it by itself, unless it waits to be accepted. What reaches the proxy is not past it.
        if (inode == 0 && !is_inbound) || (is_inbound && inode != 0 && self.proxies.contains(&uid)) {
            return Fate::Keep;
        }
        let ends = [(TCP, local, remote), (TCP, remote, local)];
        let entry = ends.iter().find_map(|ends| self.by_ends.get(ends).copied());
        let held = entry.and_then(|at| self.entries.get(at));
        if held.is_some_and(|entry| entry.is_translated() || self.is_intercepted(entry)) {
            return Fate::Keep;
        }
        let sent = self.sent((local, remote), TCP, Some(uid), known.get(&inode).copied());
        let received = self.received((local, remote), TCP);
        let (first, other) = if is_inbound { (received, sent) } else { (sent, received) };
        match first.redirected {
            Redirected::Never => return Fate::Keep,
            Redirected::Sometimes => return Fate::Unknown,
            Redirected::Always => {}
        }
        // A connection that starts sends its first packet again.
        let does_suffice = is_starting
            || (self.is_loose
                && !first.is_intercepted
                && !other.is_intercepted
                && other.redirected == Redirected::Always);
        let is_met = held.is_some_and(|entry| entry.zone == first.zone);
        Fate::End {
            entry: entry.filter(|_| is_met && (self.is_loose || is_starting)),
            close: (!does_suffice).then_some(at),
        }
    }

    /// UDP has no connections: the next packet is a first one, whoever sends it, and a deletion harms nobody.
    fn udp(&self, at: usize, entry: &Entry, sockets: &Sockets, known: &BTreeMap<u64, u32>) -> Fate {
        let (local, remote) = (entry.original.source, entry.original.destination);
        if entry.is_translated() || !self.is_local(local.ip()) {
            return Fate::Keep;
        }
        let is_its = |open: &&Open| {
            let ip = open.local.ip();
            !open.is_tcp && open.local.port() == local.port() && (ip == local.ip() || ip.is_unspecified())
        };
        let owner = sockets.open.iter().find(is_its);
        let group = owner.and_then(|open| known.get(&open.inode).copied());
        let sent = self.sent((local, remote), UDP, owner.map(|open| open.uid), group);
        if sent.redirected == Redirected::Never || sent.zone != entry.zone {
            return Fate::Keep;
        }
        Fate::End { entry: Some(at), close: None }
    }

    fn is_intercepted(&self, entry: &Entry) -> bool {
        self.mark == Some(entry.mark)
    }

    fn is_local(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.interfaces.contains_key(&ip)
    }

    fn interface(&self, local: IpAddr, remote: IpAddr) -> String {
        if self.is_local(remote) {
            return "lo".to_owned();
        }
        self.interfaces.get(&local).cloned().unwrap_or_else(|| "eth0".to_owned())
    }

    /// The first packet that this end sends.
    fn sent(
        &self,
        (local, remote): (SocketAddr, SocketAddr),
        protocol: u8,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Judged {
        let packet = |gid| Packet {
            hook: Hook::Output,
            source: local.ip(),
            destination: remote.ip(),
            layer4: layer4(protocol, local.port(), remote.port()),
            interface: self.interface(local.ip(), remote.ip()).into(),
            uid: Some(uid.unwrap_or(self.stranger)),
            gid: Some(gid),
            connection: Connection::New,
            mark: 0,
            connmark: 0,
        };
        match gid {
            Some(gid) => self.judged([packet(gid)].iter()),
            None => self.judged(self.groups.iter().map(|gid| packet(*gid)).collect::<Vec<_>>().iter()),
        }
    }

    /// The first packet that the other end sends.
    fn received(&self, (local, remote): (SocketAddr, SocketAddr), protocol: u8) -> Judged {
        let packet = Packet {
            hook: Hook::Prerouting,
            source: remote.ip(),
            destination: local.ip(),
            layer4: layer4(protocol, remote.port(), local.port()),
            interface: self.interface(local.ip(), remote.ip()).into(),
            uid: None,
            gid: None,
            connection: Connection::New,
            mark: 0,
            connmark: 0,
        };
        self.judged([packet].iter())
    }

    fn judged<'p>(&self, packets: impl Iterator<Item = &'p Packet>) -> Judged {
        let (mut redirected, mut left, mut judged) =
            (false, false, Judged { redirected: Redirected::Never, is_intercepted: false, zone: 0 });
        for packet in packets {
            let verdict = self.judge.verdict(packet);
            match verdict.outcome {
                Outcome::Redirected { .. } => redirected = true,
                Outcome::Intercepted { .. } => (redirected, judged.is_intercepted) = (true, true),
                Outcome::Untouched | Outcome::Dropped => left = true,
            }
            judged.zone = verdict.zone;
        }
        judged.redirected = match (redirected, left) {
            (true, false) => Redirected::Always,
            (true, true) => Redirected::Sometimes,
            (false, _) => Redirected::Never,
        };
        judged
    }
}

fn number(id: &Id) -> Option<u32> {
    match id {
        Id::Number(number) => Some(*number),
        Id::Name(_) => None,
    }
}

fn layer4(protocol: u8, source: u16, destination: u16) -> Layer4 {
    match protocol {
        TCP => Layer4::Tcp { source, destination },
        _ => Layer4::Udp { source, destination },
    }
}

#[cfg(test)]
mod tests {
    use redirect::config::Mode;
    use redirect::generate::ruleset;
    use redirect::list::Selection;
    use redirect::ruleset::Port;

    use super::super::conntrack::Tuple;
    use super::*;

    const POD: &str = "10.9.0.2";
    const PEER: &str = "10.9.0.1";

    fn config() -> Config {
        Config {
            inbound_ports_include: Some(Selection::All),
            inbound_ports_exclude: vec![Port::One(15090)],
            outbound_ranges_include: Selection::All,
            outbound_ports_exclude: vec![Port::One(9999)],
            ..Config::default()
        }
    }

    fn at(ip: &str, port: u16) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), port)
    }

    fn plain(local: SocketAddr, remote: SocketAddr) -> Entry {
        let way = |source, destination| Tuple { protocol: TCP, source, destination };
        Entry::of(way(local, remote), way(remote, local))
    }

    /// Fate of one connection, where port 8080 listens.
    fn fate(config: &Config, open: Open, entries: &[Entry], group: Option<u32>, is_loose: bool) -> Fate {
        let wanted = ruleset(config).unwrap();
        let interfaces = [(POD, "eth0"), ("127.0.0.1", "lo")];
        let interfaces = interfaces.map(|(ip, name)| (ip.parse().unwrap(), name.to_owned())).into();
        let listening = [8080, 15001, 15006, 15090].into();
        let scene = Scene::new(&wanted, config, interfaces, (&listening, entries), is_loose);
        let known = group.map(|group| (open.inode, group)).into_iter().collect();
        let sockets = Sockets { open: vec![open], listening: listening.clone() };
        scene.fates(&sockets, &known)[0].fate
    }

    const GONE: Fate = Fate::End { entry: Some(0), close: None };
    const CLOSED: Fate = Fate::End { entry: Some(0), close: Some(0) };

    #[test]
    fn what_the_rules_redirect_ends_and_all_else_goes_on() {
        let (out, inbound) = ((at(POD, 40000), at(PEER, 80)), (at(POD, 8080), at(PEER, 50000)));
        for ((local, remote), uid, group, expected) in [
            (out, 1000, Some(1000), GONE),
            (out, 1337, Some(1337), Fate::Keep),
            (out, 1337, None, Fate::Keep),
            (out, 1000, Some(1337), Fate::Keep),
            (out, 1000, None, Fate::Unknown),
            ((at(POD, 40000), at(PEER, 9999)), 1000, Some(1000), Fate::Keep),
            (inbound, 1000, Some(1000), GONE),
            ((at(POD, 15090), at(PEER, 50000)), 1337, Some(1337), Fate::Keep),
            ((at("127.0.0.1", 40000), at("127.0.0.1", 8080)), 1000, Some(1000), Fate::Keep),
        ] {
            let open = Open::of(local, remote, uid, 7);
            let found = fate(&config(), open, &[plain(local, remote)], group, true);
            assert_eq!(found, expected, "{local} {remote} {uid} {group:?}");
        }
    }

    #[test]
    fn a_socket_is_closed_where_the_other_end_s_packet_would_pass() {
        let (local, remote) = (at(POD, 40000), at(PEER, 80));
        let open = || Open::of(local, remote, 1000, 7);
        let entry = [plain(local, remote)];
        let outbound_only = Config { inbound_ports_include: None, ..config() };
        assert_eq!(fate(&outbound_only, open(), &entry, Some(1), true), CLOSED, "the peer may speak first");
        let strict = Fate::End { entry: None, close: Some(0) };
        assert_eq!(fate(&config(), open(), &entry, Some(1), false), strict, "its packets would be INVALID");
        let starting = Open { is_starting: true, ..open() };
        assert_eq!(fate(&outbound_only, starting, &entry, Some(1), false), GONE, "it sends its SYN again");
        let (local, remote) = (at(POD, 8080), at(PEER, 50000));
        let inbound_only = Config { outbound_ranges_include: Selection::List(Vec::new()), ..config() };
        let accepted = Open::of(local, remote, 1000, 7);
        assert_eq!(fate(&inbound_only, accepted, &[plain(remote, local)], Some(1), true), CLOSED);
        let intercepting = Config { mode: Mode::Tproxy, ..config() };
        let accepted = Open::of(local, remote, 1000, 7);
        assert_eq!(fate(&intercepting, accepted, &[plain(remote, local)], Some(1), true), CLOSED);
    }

    #[test]
    fn what_goes_through_the_proxy_already_is_kept() {
        let (local, remote, proxy) = (at(POD, 40000), at(PEER, 80), at("127.0.0.1", 15001));
        let way = |source, destination| Tuple { protocol: TCP, source, destination };
        let redirected = Entry::of(way(local, remote), way(proxy, local));
        assert_eq!(
            fate(&config(), Open::of(local, remote, 1000, 7), &[redirected], Some(1), true),
            Fate::Keep
        );
        let (local, remote) = (at(POD, 8080), at(PEER, 50000));
        let mut marked = plain(remote, local);
        marked.mark = 1337;
        let intercepting = Config { mode: Mode::Tproxy, ..config() };
        assert_eq!(
            fate(&intercepting, Open::of(local, remote, 1000, 7), &[marked], Some(1), true),
            Fate::Keep
        );
        let waits = Open::of(local, remote, 0, 0);
        let found = fate(&config(), waits, &[plain(remote, local)], None, true);
        assert_eq!(found, CLOSED, "it waits to be accepted, nobody knows by whom");
        let orphan = Open::of(at(POD, 40000), at(PEER, 80), 0, 0);
        assert_eq!(fate(&config(), orphan, &[], None, true), Fate::Keep);
    }
}
