// SPDX-License-Identifier: Apache-2.0
//! The network namespaces of a node's pods. A pod's is the one of some process that has the pod's address: every runtime is alike in that.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;

use cluster::hand::Network;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Does work in a network namespace, on a thread of its own that ends there.
pub(crate) async fn inside<T: Send + 'static>(
    network: Network,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (send, receive) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new().name("hand".to_owned()).spawn(move || {
        let _context = runtime.enter();
        let _nobody_waits = send.send(enter(&network).map(|()| work()));
    })?;
    receive.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?
}

/// Enters a network namespace with this thread.
fn enter(network: &Network) -> io::Result<()> {
    match network {
        Network::Node => Ok(()),
        Network::Kept(path) => Ok(setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?),
        Network::Pod(address) => enter_pod(*address),
    }
}

fn enter_pod(address: IpAddr) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    for process in fs::read_dir("/proc")?.flatten() {
        // Others end while we look.
        let Ok(namespace) = File::open(process.path().join("ns/net")) else { continue };
        if !seen.insert(namespace.metadata()?.ino()) || setns(&namespace, CloneFlags::CLONE_NEWNET).is_err() {
            continue;
        }
        if has(address)? {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no process of this node has the address {address}")))
}

/// True if the namespace of this thread has the address.
fn has(address: IpAddr) -> io::Result<bool> {
    Ok(getifaddrs()?.filter_map(|interface| interface.address).any(|one| {
        let v4 = one.as_sockaddr_in().map(|socket| IpAddr::from(socket.ip()));
        let v6 = || one.as_sockaddr_in6().map(|socket| IpAddr::from(socket.ip()));
        v4.or_else(v6) == Some(address)
    }))
}
