// SPDX-License-Identifier: Apache-2.0
//! The namespaces of one lane: a pod, everything outside of it, and a guest behind one of the pod's interfaces. They die with
//! the thread that made them.
//!
//! Nothing in there speaks by itself, because every counter that moves has to be a packet's doing: the links resolve no addresses
//! (NOARP, and both ends of a pair have the same one), no address is looked for on the link before it is used, and no group is
//! joined that would be reported.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use nix::sched::{CloneFlags, setns, unshare};
use redirect::ruleset::{Cidr, Family};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use serde::{Deserialize, Serialize};

use crate::flow::Link;

/// The pod's interface to everything outside.
pub const OUTSIDE: &str = "eth0";
/// The pod's interface to the guest, as KubeVirt names it.
pub const GUEST: &str = "k6t-eth0";

/// `RT_TABLE_LOCAL`: the only table that is asked before all others.
const LOCAL_TABLE: u32 = 255;

/// The same on both ends of a pair: a link that resolves no addresses sends to its own.
const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// One of the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The pod.
    Pod,
    /// Everything else: whatever address a packet is sent to, it is there.
    Outside,
    /// Behind [`GUEST`].
    Guest,
}

/// The pod's address on the link to the outside.
#[must_use]
pub fn pod(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 8, 0, 2).into(),
        Family::V6 => Ipv6Addr::new(0xfd08, 0, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// The pod's address on the link to the guest.
#[must_use]
pub fn gate(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 9, 0, 1).into(),
        Family::V6 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// The guest's address.
#[must_use]
pub fn guest(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 9, 0, 2).into(),
        Family::V6 => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// A host outside that no rule names.
#[must_use]
pub fn stranger(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(192, 0, 2, 10).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0x10).into(),
    }
}

/// The length of what is on a link.
fn on_link(address: IpAddr) -> u8 {
    if address.is_ipv4() { 24 } else { 64 }
}

/// The pod's links, as the evaluator knows them.
#[must_use]
pub fn links() -> Vec<Link> {
    let link = |name: &'static str, address: IpAddr| Link {
        name: name.into(),
        address: Cidr { address, length: on_link(address) },
    };
    vec![
        link(OUTSIDE, pod(Family::V4)),
        link(OUTSIDE, pod(Family::V6)),
        link(GUEST, gate(Family::V4)),
        link(GUEST, gate(Family::V6)),
    ]
}

/// The namespaces. The thread that made them is in the pod's.
#[derive(Debug)]
pub struct Net {
    pod: File,
    outside: File,
    guest: File,
}

impl Net {
    /// Makes the namespaces and leaves the calling thread in the pod's, for good.
    pub fn make() -> anyhow::Result<Self> {
        let net = Self { outside: fresh()?, guest: fresh()?, pod: fresh()? };
        for place in [Place::Outside, Place::Guest, Place::Pod] {
            net.at(place, quiet)??;
        }
        // In the pod itself: only there is a packet passed on.
        set("net/ipv4/ip_forward", "1")?;
        set("net/ipv6/conf/all/forwarding", "1")?;
        // A link that is a router's own joins the routers' group and reports that twice, some time. Packets are passed on all the same
        // (ip6_forward asks for `all` only).
        set("net/ipv6/conf/default/forwarding", "0")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(net.furnish()).context("cannot furnish the namespaces")?;
        netfilter::address::add_loopback_helper().context("cannot add ::6")?;
        Ok(net)
    }

    /// Does something inside one of the namespaces.
    pub fn at<T>(&self, place: Place, work: impl FnOnce() -> T) -> anyhow::Result<T> {
        let file = match place {
            Place::Pod => return Ok(work()),
            Place::Outside => &self.outside,
            Place::Guest => &self.guest,
        };
        setns(file, CloneFlags::CLONE_NEWNET)?;
        let result = work();
        setns(&self.pod, CloneFlags::CLONE_NEWNET)?;
        Ok(result)
    }

    async fn furnish(&self) -> anyhow::Result<()> {
        let side = |place| self.at(place, Side::here)?;
        let (here, outside, guest) = (side(Place::Pod)?, side(Place::Outside)?, side(Place::Guest)?);
        for side in [&here, &outside, &guest] {
            side.up("lo").await?;
        }
        here.pair(OUTSIDE, &self.outside).await?;
        here.pair(GUEST, &self.guest).await?;
        for (name, far) in [(OUTSIDE, &outside), (GUEST, &guest)] {
            here.up(name).await?;
            far.up(name).await?;
        }
        for family in [Family::V4, Family::V6] {
            here.address(OUTSIDE, pod(family)).await?;
            here.address(GUEST, gate(family)).await?;
            here.route(any(family), 0, OUTSIDE, Kept::Main).await?;
            guest.address(GUEST, self::guest(family)).await?;
            guest.route(any(family), 0, GUEST, Kept::Main).await?;
            // A raw socket sends only from an address that is there by itself.
            outside.address("lo", stranger(family)).await?;
            outside.route(any(family), 0, "lo", Kept::Here).await?;
            for address in [pod(family), gate(family)] {
                outside.route(network(address), on_link(address), OUTSIDE, Kept::First).await?;
            }
        }
        Ok(())
    }
}

/// A namespace that the calling thread enters.
fn fresh() -> anyhow::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
    Ok(File::open("/proc/thread-self/ns/net")?)
}

/// Nothing is announced, nothing is asked for, and what is sent from an unlikely address is taken.
fn quiet() -> anyhow::Result<()> {
    for of in ["all", "default"] {
        set(&format!("net/ipv4/conf/{of}/rp_filter"), "0")?;
        set(&format!("net/ipv4/conf/{of}/accept_local"), "1")?;
        // No link-local address, which would be announced.
        set(&format!("net/ipv6/conf/{of}/addr_gen_mode"), "1")?;
        set(&format!("net/ipv6/conf/{of}/router_solicitations"), "0")?;
    }
    Ok(())
}

fn set(key: &str, value: &str) -> anyhow::Result<()> {
    std::fs::write(format!("/proc/sys/{key}"), value).with_context(|| format!("cannot set {key}"))
}

fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The first address of the link that an address is on.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & !0xff).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// Kind of route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// An ordinary one.
    Main,
    /// Its addresses are this namespace's own.
    Here,
    /// An ordinary one that is asked before those.
    First,
}

/// A netlink socket of one namespace.
struct Side {
    handle: Handle,
}

impl Side {
    fn here() -> anyhow::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    async fn index(&self, name: &str) -> anyhow::Result<u32> {
        let mut links = self.handle.link().get().match_name(name.to_owned()).execute();
        let link = links.try_next().await?.with_context(|| format!("no interface {name}"))?;
        Ok(link.header.index)
    }

    async fn up(&self, name: &str) -> anyhow::Result<()> {
        let link = LinkUnspec::new_with_index(self.index(name).await?).up().build();
        self.handle.link().set(link).execute().await.with_context(|| format!("cannot raise {name}"))
    }

    async fn pair(&self, name: &str, far: &File) -> anyhow::Result<()> {
        let plain = |builder: LinkMessageBuilder<LinkUnspec>| builder.address(HARDWARE.to_vec()).arp(false);
        let peer = plain(LinkUnspec::new_with_name(name)).setns_by_fd(far.as_raw_fd()).build();
        let near = LinkVeth::new(name, name).address(HARDWARE.to_vec()).arp(false);
        let pair = near.set_info_data(InfoData::Veth(InfoVeth::Peer(peer))).build();
        self.handle.link().add(pair).execute().await.with_context(|| format!("cannot make {name}"))
    }

    async fn address(&self, name: &str, address: IpAddr) -> anyhow::Result<()> {
        let index = self.index(name).await?;
        let mut request = self.handle.address().add(index, address, on_link(address));
        if address.is_ipv6() {
            let flags = AddressAttribute::Flags(AddressFlags::Nodad);
            request.message_mut().attributes.push(flags);
        }
        request.execute().await.with_context(|| format!("cannot add {address} to {name}"))
    }

    async fn route(&self, to: IpAddr, length: u8, by: &str, kept: Kept) -> anyhow::Result<()> {
        let mut route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, length)?
            .output_interface(self.index(by).await?)
            .scope(RouteScope::Link);
        if kept != Kept::Main {
            route = route.table_id(LOCAL_TABLE);
        }
        if kept == Kept::Here {
            route = route.kind(RouteType::Local).scope(RouteScope::Host);
        }
        let request = self.handle.route().add(route.build());
        request.execute().await.with_context(|| format!("cannot route {to}/{length} by {by}"))
    }
}
