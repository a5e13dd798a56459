// SPDX-License-Identifier: Apache-2.0
//! The network namespaces of a node's pods. A pod's is the one that has the pod's address, of some process or of those that the runtime keeps: with
//! CRI-O, which has no container for the sandbox, a pod has no process while its only container waits to be started again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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

/// Where runtimes keep the namespaces of sandboxes, as the node's first process sees it.
const KEPT: &str = "/proc/1/root/run/netns";

fn enter_pod(address: IpAddr) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    let of_processes = entries(Path::new("/proc")).map(|process| process.join("ns/net"));
    for path in of_processes.chain(entries(Path::new(KEPT))) {
        // Others end while we look.
        let Ok(namespace) = File::open(path) else { continue };
        if !seen.insert(namespace.metadata()?.ino()) || setns(&namespace, CloneFlags::CLONE_NEWNET).is_err() {
            continue;
        }
        if has(address)? {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no network namespace of this node has the address {address}"),
    ))
}

/// Paths of a directory, none if it is not there.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// True if the namespace of this thread has the address.
fn has(address: IpAddr) -> io::Result<bool> {
    Ok(getifaddrs()?.filter_map(|interface| interface.address).any(|one| {
        let v4 = one.as_sockaddr_in().map(|socket| IpAddr::from(socket.ip()));
        let v6 = || one.as_sockaddr_in6().map(|socket| IpAddr::from(socket.ip()));
        v4.or_else(v6) == Some(address)
    }))
}
