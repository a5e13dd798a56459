// SPDX-License-Identifier: Apache-2.0
//! Connections that were open before rules were written: those that the rules redirect end, whichever end speaks first, and all others go on.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use netfilter::Wish;
use netfilter::address::list;
use netfilter::flows::{Settled, settle};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use redirect::Config;
use redirect::config::Mode;
use redirect::list::Selection;
use redirect::ruleset::Port;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{LinkUnspec, LinkVeth};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};

use crate::backends::do_program;
use crate::world::World;
use crate::{Case, Needs, tools};

pub(crate) const CASES: &[Case] = &[
    Case("an_open_outbound_connection_ends_whoever_speaks_first", Needs::ToolsAndUsers, outbound),
    Case("an_open_inbound_connection_ends_whoever_speaks_first", Needs::ToolsAndUsers, inbound),
    Case("connections_of_the_proxy_and_excluded_ones_go_on", Needs::ToolsAndUsers, others),
    Case("without_pick_up_in_the_middle_sockets_are_closed", Needs::ToolsAndUsers, strict),
    Case("connections_that_go_through_the_proxy_survive_a_second_writing", Needs::ToolsAndUsers, through),
    Case("connections_end_where_conntrack_was_never_used", Needs::ToolsAndUsers, untracked),
];

const POD: &str = "10.9.0.2";
const PEER: &str = "10.9.0.1";

/// A pod and its peer, each in a namespace of its own.
struct Pair {
    pod: File,
    peer: File,
}

/// Whose packet comes first after the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Pod,
    Peer,
}

impl Pair {
    fn new() -> Self {
        let netns = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            rig::link::up(&[]);
            File::open(rig::netns::OWN).unwrap()
        };
        let (peer, pod) = (netns(), netns());
        rig::link::ask(async |handle| {
            let far = LinkUnspec::new_with_name("eth0").setns_by_fd(peer.as_raw_fd()).build();
            let near = LinkVeth::new("eth0", "eth0").set_info_data(InfoData::Veth(InfoVeth::Peer(far)));
            handle.link().add(near.build()).execute().await
        });
        let pair = Self { pod, peer };
        for (netns, address) in [(&pair.pod, POD), (&pair.peer, PEER)] {
            pair.inside(netns, || {
                rig::link::ask(async |handle| {
                    // `lo` is the first link, and this the second.
                    let index = index("eth0");
                    rig::link::add_address(&handle, index, address.parse().unwrap(), 24).await?;
                    handle.link().change(LinkUnspec::new_with_index(index).up().build()).execute().await
                });
            });
        }
        pair
    }

    /// With a foreign rule that needs conntrack.
    fn tracked() -> Self {
        let pair = Self::new();
        pair.inside(&pair.pod, || {
            tools::nft("add table ip other; add chain ip other o { type filter hook output priority 0; }; add rule ip other o ct state established counter accept");
        });
        pair
    }

    fn inside<T>(&self, netns: &File, work: impl FnOnce() -> T) -> T {
        setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
        let done = work();
        setns(&self.pod, CloneFlags::CLONE_NEWNET).unwrap();
        done
    }

    /// A connection that has carried something each way: the pod's end and the peer's.
    fn connected(&self, from: First, port: u16) -> (TcpStream, TcpStream) {
        let (server, client) = match from {
            First::Pod => (&self.peer, &self.pod),
            First::Peer => (&self.pod, &self.peer),
        };
        let address = if from == First::Pod { PEER } else { POD };
        let listener = self.inside(server, || TcpListener::bind((address, port)).unwrap());
        let connected = self.inside(client, || TcpStream::connect((address, port)).unwrap());
        let (accepted, _) = listener.accept().unwrap();
        // The listener of an application lives as long as the application.
        std::mem::forget(listener);
        let mut ends = if from == First::Pod { (connected, accepted) } else { (accepted, connected) };
        for end in [&ends.0, &ends.1] {
            end.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            end.set_nodelay(true).unwrap();
        }
        assert!(goes_on(&mut ends, First::Pod) && goes_on(&mut ends, First::Peer));
        ends
    }

    /// Writes the rules, and settles what was open before them.
    fn write(&self, config: &Config) -> Settled {
        self.inside(&self.pod, || {
            do_program(config.clone(), Wish::Auto);
            settle(config, &list().unwrap(), Path::new("/proc")).unwrap()
        })
    }
}

fn index(name: &str) -> u32 {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    name_to_index(&socket, name).unwrap()
}

/// True if the first end's word arrives at the other one, and another comes back.
fn goes_on((pod, peer): &mut (TcpStream, TcpStream), first: First) -> bool {
    let (one, other) = if first == First::Pod { (pod, peer) } else { (peer, pod) };
    let mut word = [0; 1];
    let mut arrives = |from: &mut TcpStream, to: &mut TcpStream| {
        from.write_all(b"x").is_ok() && to.read_exact(&mut word).is_ok()
    };
    arrives(one, other) && arrives(other, one)
}

fn everything() -> Config {
    Config {
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: vec![Port::One(9090)],
        outbound_ranges_include: Selection::All,
        outbound_ports_exclude: vec![Port::One(9999)],
        ..Config::default()
    }
}

fn ended(ended: usize) -> Settled {
    Settled { ended, ..Settled::default() }
}

fn outbound(_: World) {
    for first in [First::Pod, First::Peer] {
        for inbound in [Some(Selection::All), None] {
            let pair = Pair::tracked();
            let mut ends = pair.connected(First::Pod, 80);
            let config = Config { inbound_ports_include: inbound.clone(), ..everything() };
            assert_eq!(pair.write(&config), ended(1), "{first:?} {inbound:?}");
            assert!(!goes_on(&mut ends, first), "{first:?} {inbound:?}");
        }
    }
}

fn inbound(_: World) {
    for first in [First::Pod, First::Peer] {
        for ranges in [Selection::All, Selection::List(Vec::new())] {
            for mode in [Mode::Redirect, Mode::Tproxy] {
                let pair = Pair::tracked();
                let mut ends = pair.connected(First::Peer, 8080);
                let config = Config { outbound_ranges_include: ranges.clone(), mode, ..everything() };
                assert_eq!(pair.write(&config), ended(1), "{first:?} {ranges:?} {mode:?}");
                assert!(!goes_on(&mut ends, first), "{first:?} {ranges:?} {mode:?}");
            }
        }
    }
}

fn others(_: World) {
    for first in [First::Pod, First::Peer] {
        let pair = Pair::tracked();
        let mut excluded = [pair.connected(First::Pod, 9999), pair.connected(First::Peer, 9090)];
        setfsgid(Gid::from_raw(1337));
        setfsuid(Uid::from_raw(1337));
        let mut of_proxy = pair.connected(First::Pod, 80);
        setfsuid(Uid::from_raw(0));
        setfsgid(Gid::from_raw(0));
        let mut of_app = pair.connected(First::Pod, 8081);
        assert_eq!(pair.write(&everything()), ended(1), "{first:?}");
        assert!(goes_on(&mut of_proxy, first), "{first:?}: the proxy's");
        for (number, ends) in excluded.iter_mut().enumerate() {
            assert!(goes_on(ends, first), "{first:?}: excluded {number}");
        }
        assert!(!goes_on(&mut of_app, first), "{first:?}");
    }
}

fn strict(_: World) {
    for first in [First::Pod, First::Peer] {
        for from in [First::Pod, First::Peer] {
            let pair = Pair::tracked();
            pair.inside(&pair.pod, || {
                std::fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "0").unwrap();
            });
            let mut ends = pair.connected(from, 8080);
            assert_eq!(pair.write(&everything()), ended(1), "{first:?} {from:?}");
            assert!(!goes_on(&mut ends, first), "{first:?} {from:?}");
        }
    }
}

fn through(_: World) {
    let pair = Pair::tracked();
    pair.write(&everything());
    let proxy = pair.inside(&pair.pod, || TcpListener::bind(("0.0.0.0", 15001)).unwrap());
    let app = pair.inside(&pair.pod, || TcpStream::connect((PEER, 80)).unwrap());
    let (accepted, _) = proxy.accept().unwrap();
    let mut ends = (app, accepted);
    assert!(goes_on(&mut ends, First::Pod));
    let changed = Config { outbound_ports_exclude: vec![Port::One(9998)], ..everything() };
    assert_eq!(pair.write(&changed), Settled::default());
    assert!(goes_on(&mut ends, First::Pod) && goes_on(&mut ends, First::Peer));
}

fn untracked(_: World) {
    for first in [First::Pod, First::Peer] {
        for inbound in [Some(Selection::All), None] {
            let pair = Pair::new();
            let mut ends = pair.connected(First::Pod, 80);
            let config = Config { inbound_ports_include: inbound.clone(), ..everything() };
            assert_eq!(pair.write(&config), ended(1), "{first:?} {inbound:?}");
            assert!(!goes_on(&mut ends, first), "{first:?} {inbound:?}");
        }
    }
}
