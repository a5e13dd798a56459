// SPDX-License-Identifier: Apache-2.0
//! Packets that a probe could send: whom they come from and where they go, best first. Which of them rules redirect is not known here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use netfilter::address::Address;
use redirect::config::Config;
use redirect::host::loopback;
use redirect::host::{INBOUND_V4, INBOUND_V6};
use redirect::packet::{Connection, Hook, Layer4, Packet};
use redirect::ruleset::{Family, Id, Port};
use rustix::io::Errno;
use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// Probe packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// As rules match it.
    pub packet: Packet,
    /// Destination.
    pub to: SocketAddr,
    id: u32,
    from: Option<IpAddr>,
}

/// Users and groups that own nothing: rules leave alone what is the proxy's. Root comes last: an agent without SETUID and SETGID can be
/// nobody else.
const IDS: [u32; 5] = [65534, 65533, 2000, 1, 0];
/// Destinations for documentation (RFC 5737, RFC 3849).
const NOWHERE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 2), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));
/// Ports that are rarely excluded.
const PORTS: [u16; 3] = [80, 8080, 9];
/// A port that no rule matches.
const SOURCE: u16 = 40000;

/// The candidates of one family. `own` are the pod's addresses of it, at least one.
pub(super) fn candidates(config: &Config, family: Family, own: &[&Address]) -> Vec<Sent> {
    let Some(first) = own.first() else { return Vec::new() };
    let interface = interface(first.interface);
    let groups = config.owner_groups_include.listed().iter().filter_map(number);
    let ids: Vec<u32> = IDS.into_iter().chain(groups).collect();
    let listed = config.outbound_ports_include.iter().filter_map(|port| match port {
        Port::One(port) | Port::Range(port, _) => Some(*port),
        Port::Verbatim(_) => None,
    });
    let ports: Vec<u16> = PORTS.into_iter().chain(listed).collect();
    let mut sent = Vec::new();
    for address in targets(config, family, own) {
        for port in &ports {
            for id in &ids {
                sent.push(outbound((first.ip, &interface), SocketAddr::new(address, *port), *id));
            }
        }
    }
    sent.extend(config.proxy_uids.iter().filter_map(number).map(|id| like_the_proxy(family, id)));
    sent
}

fn number(id: &Id) -> Option<u32> {
    match id {
        Id::Number(number) => Some(*number),
        Id::Name(_) => None,
    }
}

/// Where packets could go: nowhere, what is captured, a neighbour (a pod may have no default route).
fn targets(config: &Config, family: Family, own: &[&Address]) -> Vec<IpAddr> {
    let nowhere = match family {
        Family::V4 => NOWHERE.0.into(),
        Family::V6 => NOWHERE.1.into(),
    };
    let ranges = config.outbound_ranges_include.listed().iter().map(|range| range.address);
    let neighbours =
        own.iter().filter(|address| address.length < if address.ip.is_ipv4() { 31 } else { 127 });
    let all = [nowhere].into_iter().chain(ranges.flat_map(|base| [next(base), base]));
    all.chain(neighbours.map(|address| next(address.ip)))
        .filter(|address| Family::of(*address) == family)
        .collect()
}

/// Neighbouring address.
fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) ^ 1).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) ^ 1).into(),
    }
}

fn interface(index: u32) -> String {
    socket(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .and_then(|socket| index_to_name(&socket, index))
        .unwrap_or_else(|_| "eth0".to_owned())
}

fn outbound((from, interface): (IpAddr, &str), to: SocketAddr, id: u32) -> Sent {
    let packet = Packet {
        hook: Hook::Output,
        source: from,
        destination: to.ip(),
        layer4: Layer4::Tcp { source: SOURCE, destination: to.port() },
        interface: interface.to_owned().into(),
        uid: Some(id),
        gid: Some(id),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    };
    Sent { packet, to, id, from: None }
}

/// The packet that validation sends, too: the proxy's way to the app. It is redirected where only inbound traffic is.
fn like_the_proxy(family: Family, id: u32) -> Sent {
    let from = loopback(family);
    let helper = if family == Family::V4 { INBOUND_V4.address } else { INBOUND_V6.address };
    let sent = outbound((from, "lo"), SocketAddr::new(helper, PORTS[0]), id);
    Sent { from: Some(from), ..sent }
}

fn socket(of: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(ipproto::TCP))
}

impl Sent {
    /// Sends it, from a thread that has no user and no right but the packet's.
    pub(super) fn send(&self) -> Result<(), Errno> {
        std::thread::scope(|scope| {
            // A thread that panics has sent nothing.
            scope.spawn(|| self.send_here()).join().unwrap_or(Err(Errno::IO))
        })
    }

    fn send_here(&self) -> Result<(), Errno> {
        let (uid, gid) = (Uid::from_raw(self.id), Gid::from_raw(self.id));
        // A user namespace may forbid this one; no rule looks at these groups.
        let _ = set_thread_groups(&[]);
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        let socket = socket(self.to.ip())?;
        if let Some(from) = self.from {
            bind(&socket, &SocketAddr::new(from, 0))?;
        }
        connect(&socket, &self.to)
    }
}
