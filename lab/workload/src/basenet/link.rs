// SPDX-License-Identifier: Apache-2.0
//! The veth pair between a pod and its node: every pod is on a link of its own, the node's end answers for a link-local
//! gateway of each family, and the node has one host route for each address.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _};
use nix::sched::{CloneFlags, setns};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{Handle, LinkUnspec, LinkVeth, MulticastGroup, RouteMessageBuilder};

use super::Error;
use super::conf::{Call, Range};
use crate::own::{self, LinkChanges};

/// One of a pod's networks.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    /// Index of the pod's network; the first one has 0.
    pub number: u8,
    /// Destinations; empty for the default route.
    pub reach: &'a [Range],
    /// Duplicates of the pod's addresses are looked for: they are tentative at first, and nobody waits.
    pub detects: bool,
}

/// Gateway address, which the node's end answers for.
#[must_use]
pub fn gateway(of: IpAddr, network: u8) -> IpAddr {
    let last = network + 1;
    match of {
        IpAddr::V4(_) => Ipv4Addr::new(169, 254, 1, last).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

/// Host prefix length of this family.
#[must_use]
pub fn host_length(of: IpAddr) -> u8 {
    if of.is_ipv4() { 32 } else { 128 }
}

/// MAC addresses of a veth pair.
#[derive(Debug)]
pub struct Wired {
    pub host_mac: String,
    pub pod_mac: String,
}

/// Makes the pair, the addresses and the routes, and waits until packets can pass.
pub async fn connect(
    call: &Call,
    addresses: &[IpAddr],
    mtu: Option<u32>,
    network: Network<'_>,
) -> Result<Wired, Error> {
    let netns = open(call.netns.as_deref())?;
    let mut node = Side::here()?;
    let mut pod = Side { detects: network.detects, ..Side::inside(&netns)? };
    node.pair(Ends { here: &call.host_ifname(), there: &call.ifname }, &netns, mtu).await?;
    let host_mac = node.raise(&call.host_ifname()).await?;
    let pod_mac = pod.raise(&call.ifname).await?;
    let lanes = addresses.iter().map(|address| (*address, gateway(*address, network.number)));
    let reach = Reach { beyond: network.reach, behind: &[], own: &[] };
    lay(&mut pod, &mut node, lanes.collect(), reach).await?;
    Ok(Wired { host_mac, pod_mac })
}

/// Names of a pair's ends.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// In the namespace that makes it.
    pub here: &'a str,
    /// In the other one.
    pub there: &'a str,
}

/// Ranges on both sides of a pair.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reach<'a> {
    /// What this end reaches through the other; empty for everything.
    pub beyond: &'a [Range],
    /// What the other end reaches through this one, beside its own addresses.
    pub behind: &'a [Range],
    /// Further addresses of this end.
    pub own: &'a [IpAddr],
}

/// Makes a pair to another namespace and everything that is needed to reach the world by it. Each lane is an address of this
/// end and the address beside it.
pub async fn connect_ends(
    there: &File,
    ends: Ends<'_>,
    lanes: &[(IpAddr, IpAddr)],
    reach: Reach<'_>,
) -> Result<(), Error> {
    let mut far = Side::inside(there)?;
    let mut near = Side::here()?;
    near.pair(ends, there, None).await?;
    far.raise(ends.there).await?;
    near.raise(ends.here).await?;
    lay(&mut near, &mut far, lanes.to_vec(), reach).await
}

/// Gives the leaf its addresses and the hub those beside them, with routes, and waits until both answer.
async fn lay(
    leaf: &mut Side,
    hub: &mut Side,
    lanes: Vec<(IpAddr, IpAddr)>,
    reach: Reach<'_>,
) -> Result<(), Error> {
    hub.running().await?;
    leaf.running().await?;
    for address in reach.own {
        leaf.address(*address).await?;
    }
    for &(address, beside) in &lanes {
        leaf.address(address).await?;
        leaf.route(beside, host_length(beside), None).await?;
        if reach.beyond.is_empty() {
            leaf.route(any(address), 0, Some(beside)).await?;
        }
        let of_family = |range: &&Range| range.network.is_ipv4() == address.is_ipv4();
        for range in reach.beyond.iter().filter(of_family) {
            leaf.route(range.network, range.length, Some(beside)).await?;
        }
        hub.address(beside).await?;
        hub.route(address, host_length(address), None).await?;
        for range in reach.behind.iter().filter(of_family) {
            hub.route(range.network, range.length, Some(address)).await?;
        }
    }
    for (address, beside) in lanes {
        leaf.answers_for(address).await?;
        hub.answers_for(beside).await?;
    }
    Ok(())
}

/// Removes the pair, if it exists.
pub async fn disconnect(call: &Call) -> Result<(), Error> {
    let node = Side::here()?;
    let Some(host) = node.find(&call.host_ifname()).await? else {
        return Ok(());
    };
    match node.handle.link().del(host.header.index).execute().await {
        Err(error) if is_gone(&error) => Ok(()),
        done => done.map_err(|e| Error::Netlink("remove the pair", e)),
    }
}

/// Addresses of the pod's end.
pub async fn addresses(call: &Call) -> Result<Vec<IpAddr>, Error> {
    let pod = Side::inside(&open(call.netns.as_deref())?)?;
    let link = pod.find(&call.ifname).await?.ok_or_else(|| Error::Missing(call.ifname.clone()))?;
    let listed: Vec<_> = pod
        .handle
        .address()
        .get()
        .set_link_index_filter(link.header.index)
        .execute()
        .try_collect()
        .await
        .map_err(|e| Error::Netlink("list addresses", e))?;
    let address = |attribute: &AddressAttribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    };
    Ok(listed.iter().flat_map(|message| message.attributes.iter().filter_map(address)).collect())
}

fn any(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn open(netns: Option<&Path>) -> Result<File, Error> {
    let path = netns.ok_or_else(|| Error::Environment("CNI_NETNS is empty".to_owned()))?;
    File::open(path).map_err(|error| Error::Io("open the pod's network namespace", error))
}

fn is_gone(error: &rtnetlink::Error) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message)
        if message.to_io().raw_os_error() == Some(nix::errno::Errno::ENODEV as i32))
}

/// One end of the pair: netlink sockets of its namespace. One is asked, another tells when links and routes change: where
/// pods come and go by the dozen the kernel runs out of room for news, and an answer among them would be lost with them.
struct Side {
    handle: Handle,
    changes: LinkChanges,
    /// Receives notifications until aborted.
    _listener: Handle,
    link: u32,
    /// Its IPv6 addresses are tentative at first.
    detects: bool,
}

impl Side {
    /// Works in the namespace of this thread.
    fn here() -> Result<Self, Error> {
        let failed = |error| Error::Io("open a netlink socket", error);
        let groups = [MulticastGroup::Link, MulticastGroup::Ipv6Route];
        let (news, listener, changes) = rtnetlink::new_multicast_connection(&groups).map_err(failed)?;
        let (connection, handle, _) = rtnetlink::new_connection().map_err(failed)?;
        tokio::spawn(news);
        tokio::spawn(connection);
        Ok(Self { handle, changes, _listener: listener, link: 0, detects: false })
    }

    /// The side of another namespace: a socket stays in the namespace that it was made in.
    fn inside(netns: &File) -> Result<Self, Error> {
        let failed = |errno: nix::errno::Errno| Error::Io("enter the pod's namespace", errno.into());
        let home =
            File::open("/proc/thread-self/ns/net").map_err(|e| Error::Io("open our own namespace", e))?;
        setns(netns, CloneFlags::CLONE_NEWNET).map_err(failed)?;
        let side = Self::here();
        setns(&home, CloneFlags::CLONE_NEWNET).map_err(failed)?;
        side
    }

    /// Makes a pair from here to the namespace `there`.
    async fn pair(&self, ends: Ends<'_>, there: &File, mtu: Option<u32>) -> Result<(), Error> {
        let peer = LinkUnspec::new_with_name(ends.there).setns_by_fd(there.as_raw_fd());
        let host = LinkVeth::new(ends.here, ends.there);
        let (peer, host) = match mtu {
            Some(mtu) => (peer.mtu(mtu), host.mtu(mtu)),
            None => (peer, host),
        };
        let message = host.set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build()))).build();
        let made = self.handle.link().add(message).execute().await;
        made.map_err(|e| Error::Netlink("make the pair", e))
    }

    async fn find(&self, name: &str) -> Result<Option<LinkMessage>, Error> {
        match self.handle.link().get().match_name(name).execute().try_next().await {
            Err(error) if is_gone(&error) => Ok(None),
            found => found.map_err(|e| Error::Netlink("find a link", e)),
        }
    }

    async fn up(&self, index: u32) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(index).up().build();
        let done = self.handle.link().change(message).execute().await;
        done.map_err(|e| Error::Netlink("set a link up", e))
    }

    /// Sets the link up that the side is about from now on; returns its hardware address.
    async fn raise(&mut self, name: &str) -> Result<String, Error> {
        let link = self.find(name).await?.ok_or_else(|| Error::Missing(name.to_owned()))?;
        self.link = link.header.index;
        self.up(self.link).await?;
        let mac = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => {
                Some(bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>())
            }
            _ => None,
        });
        Ok(mac.unwrap_or_default().join(":"))
    }

    /// Waits until the link is operational. Until then its queue discards packets without a word, and a lost neighbour
    /// request costs a second.
    async fn running(&mut self) -> Result<(), Error> {
        let wait = async {
            loop {
                let request = self.handle.link().get().match_index(self.link);
                let found =
                    request.execute().try_next().await.map_err(|e| Error::Netlink("find a link", e))?;
                if found.is_some_and(|link| link.header.flags.contains(LinkFlags::Running)) {
                    return Ok(());
                }
                if self.changes.next().await.is_none() {
                    return Err(Error::Io("watch a link", io::ErrorKind::BrokenPipe.into()));
                }
            }
        };
        let waited = tokio::time::timeout(own::PATIENCE, wait).await;
        waited.unwrap_or(Err(Error::Io("wait for a link", io::ErrorKind::TimedOut.into())))
    }

    async fn address(&self, address: IpAddr) -> Result<(), Error> {
        let mut request = self.handle.address().add(self.link, address, host_length(address));
        if address.is_ipv6() && !self.detects {
            // No duplicate address detection: it would keep the address tentative for a second.
            let message = request.message_mut();
            message.header.flags |= AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        request.execute().await.map_err(|e| Error::Netlink("add an address", e))
    }

    /// Waits until the kernel answers for one of the link's addresses; for IPv4 it does at once.
    async fn answers_for(&mut self, address: IpAddr) -> Result<(), Error> {
        match address {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(_) if self.detects => Ok(()),
            IpAddr::V6(address) => {
                Ok(own::until_own(&self.handle, &mut self.changes, self.link, address).await?)
            }
        }
    }

    async fn route(&self, to: IpAddr, length: u8, via: Option<IpAddr>) -> Result<(), Error> {
        let impossible = |_| Error::Environment(format!("{to}/{length} is no destination"));
        let mut route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(to, length)
            .map_err(impossible)?
            .output_interface(self.link);
        route = match via {
            Some(gateway) => route.gateway(gateway).map_err(impossible)?,
            None => route.scope(RouteScope::Link),
        };
        let done = self.handle.route().add(route.build()).execute().await;
        done.map_err(|e| Error::Netlink("add a route", e))
    }
}
