// SPDX-License-Identifier: Apache-2.0
//! Stands in for a virtual machine in a pod: a network namespace of its own behind an interface of the pod, as KubeVirt has
//! it. What the guest sends enters the pod by that interface.

use std::fs::File;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Context as _;
use nix::sched::{CloneFlags, unshare};

use crate::basenet::link::{Ends, Reach, connect_ends};
use crate::line;

/// The guest's addresses and the pod's beside them, as KubeVirt's masquerade has them.
const ADDRESSES: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)), IpAddr::V4(Ipv4Addr::new(10, 0, 2, 1))),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 2)),
        IpAddr::V6(Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 1)),
    ),
];

/// Moves this process into the guest's namespace, links it to the pod by `interface`, says which addresses the guest has,
/// and stays until it is killed. Whoever wants to be the guest enters this process' namespace.
pub async fn run(interface: &str) -> anyhow::Result<()> {
    let pod = File::open("/proc/self/ns/net").context("open the pod's namespace")?;
    unshare(CloneFlags::CLONE_NEWNET).context("make the guest's namespace")?;
    connect_ends(&pod, Ends { here: "eth0", there: interface }, &ADDRESSES, Reach::default()).await?;
    let own: Vec<String> = ADDRESSES.iter().map(|(guest, _)| guest.to_string()).collect();
    line::announce(&format!("ready guest {}", own.join(" ")))?;
    pending().await
}
