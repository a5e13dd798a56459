// SPDX-License-Identifier: Apache-2.0
//! Waiting until the kernel takes an IPv6 address for its own. It lists an address as soon as it is added, but answers for
//! it only once a worker of its own has put the address' route into the local table: a little later, much later on a busy
//! machine. What arrives in between is lost, and a lost neighbour solicitation costs a second.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use futures::channel::mpsc::UnboundedReceiver;
use futures::{StreamExt as _, TryStreamExt as _};
use rtnetlink::packet_core::NetlinkMessage;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::sys::SocketAddr;
use rtnetlink::{Handle, MulticastGroup, RouteMessageBuilder};

/// Index of `lo`: the kernel makes it first in every namespace.
const LO: u32 = 1;

/// Deadline for the kernel. It is a matter of milliseconds, but all namespaces of a machine wait for one lock (RTNL): where fifty nodes began at a time
/// beside a compiler, 5 s were not enough once.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Netlink notifications.
pub type LinkChanges = UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>;

/// Failure while waiting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel rejected a request.
    #[error("failed to list routes: {0}")]
    Netlink(#[from] rtnetlink::Error),
    /// The notifications ended, or none came in time.
    #[error("failed to wait for {address} to be taken for our own: {source}")]
    Wait { address: Ipv6Addr, source: io::Error },
}

/// Waits until `address` of the link is in the local table. `changes` must tell of IPv6 routes.
///
/// # Errors
/// It did not come to be in time.
pub async fn until_own(
    handle: &Handle,
    changes: &mut LinkChanges,
    link: u32,
    address: Ipv6Addr,
) -> Result<(), Error> {
    let wait = async {
        while !is_own(handle, link, address).await? {
            if changes.next().await.is_none() {
                return Err(Error::Wait { address, source: io::ErrorKind::BrokenPipe.into() });
            }
        }
        Ok(())
    };
    let late = || Error::Wait { address, source: io::ErrorKind::TimedOut.into() };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| Err(late()))
}

async fn is_own(handle: &Handle, link: u32, address: Ipv6Addr) -> Result<bool, rtnetlink::Error> {
    let routes = handle.route().get(RouteMessageBuilder::<Ipv6Addr>::new().build()).execute();
    routes.try_any(|route| async move { leads_here(&route, link, address) }).await
}

fn leads_here(route: &RouteMessage, link: u32, address: Ipv6Addr) -> bool {
    let has = |wanted: RouteAttribute| route.attributes.contains(&wanted);
    route.header.kind == RouteType::Local
        && has(RouteAttribute::Destination(RouteAddress::Inet6(address)))
        && has(RouteAttribute::Oif(link))
}

/// Waits until `address` of `lo` is our own, if `lo` has it at all.
///
/// # Errors
/// It did not come to be in time.
pub async fn until_own_on_lo(address: Ipv6Addr) -> Result<(), Error> {
    let opened = rtnetlink::new_multicast_connection(&[MulticastGroup::Ipv6Route]);
    let (connection, handle, mut changes) = opened.map_err(|source| Error::Wait { address, source })?;
    let connection = tokio::spawn(connection);
    let listed = handle.address().get().set_link_index_filter(LO).execute();
    let wanted = AddressAttribute::Address(IpAddr::V6(address));
    let there = listed.try_any(|message| std::future::ready(message.attributes.contains(&wanted))).await?;
    let waited = if there { until_own(&handle, &mut changes, LO, address).await } else { Ok(()) };
    connection.abort();
    waited
}
