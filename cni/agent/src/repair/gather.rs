// SPDX-License-Identifier: Apache-2.0
//! Everything on the node that could be a pod's network namespace: bind mounts, paths of the runtime's cache, namespaces of processes.
//! Each is looked into once, by entering it: for a process of our own with one thread.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use netfilter::address::{Address, Rtnetlink};
use netfilter::{Netns, NetnsError, NetnsId, NodeRoot};
use serde::{Deserialize, Serialize};

use super::cache::{self, CachedResult};
use super::find::{Candidate, Sandbox};
use super::process::{self, Process};

/// Search paths for namespaces, as mounted for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grounds {
    /// Bind mounts, where the pod's template mounts their directory, as upstream's does.
    pub netns_dir: PathBuf,
    /// Directory of bind mounts, as the node names it.
    pub node_netns_dir: PathBuf,
    pub cache_dir: PathBuf,
    /// The node's processes.
    pub proc_dir: PathBuf,
}

/// Namespaces of the node, in the order of [`Candidate`]s.
#[derive(Debug, Default)]
pub struct Gathered {
    pub candidates: Vec<Candidate>,
    pub namespaces: Vec<PodNamespace>,
}

/// A namespace that may be a pod's.
#[derive(Debug)]
pub struct PodNamespace {
    pub netns: Netns,
    /// In the kernel's order.
    pub addresses: Vec<Address>,
}

/// Gathers them. The calling thread ends in one of them.
///
/// # Errors
/// The own namespace cannot be told, so that it could be taken for a pod's.
pub fn gather(grounds: &Grounds) -> Result<Gathered, NetnsError> {
    let own = Netns::current()?.id();
    let node = Netns::open(grounds.proc_dir.join("1/ns/net")).map(|netns| netns.id()).ok();
    let is_a_pod_s = |id: NetnsId| id != own && Some(id) != node;

    let mut found: BTreeMap<NetnsId, (Netns, Option<Process>)> = BTreeMap::new();
    let entries = cache::read(&grounds.cache_dir);
    let mut by_path: BTreeMap<NetnsId, CachedResult> = BTreeMap::new();
    let root = NodeRoot::open(&grounds.proc_dir);
    for entry in &entries {
        let named = entry.netns.as_deref();
        let Some(netns) = named.and_then(|path| open(grounds, root.as_ref(), path)) else { continue };
        // The newest comes first: a path may have been another sandbox's before.
        by_path.entry(netns.id()).or_insert_with(|| entry.clone());
        found.entry(netns.id()).or_insert((netns, None));
    }
    let mounts = std::fs::read_dir(&grounds.netns_dir).into_iter().flatten().flatten();
    let mounted = mounts.filter_map(|file| Netns::open(file.path()).ok());
    let of_node = root.iter().flat_map(|root| root.netns_in(&grounds.node_netns_dir));
    for netns in mounted.chain(of_node) {
        found.entry(netns.id()).or_insert((netns, None));
    }
    for process in process::list(&grounds.proc_dir) {
        let Some((_, oldest)) = seen(&mut found, &process) else { continue };
        if oldest.as_ref().is_none_or(|known| process.started < known.started) {
            *oldest = Some(process);
        }
    }
    found.retain(|id, _| is_a_pod_s(*id));
    let mut gathered = Gathered::default();
    for (id, (netns, oldest)) in found {
        let Some(addresses) = addresses(&netns) else { continue };
        let ips: Vec<IpAddr> = addresses.iter().map(|address| address.ip).collect();
        let entry = by_path.get(&id).or_else(|| by_address(&entries, &ips));
        let sandbox = match (entry, oldest.and_then(|process| process.pod)) {
            (Some(entry), _) => Sandbox::Cached(entry.named.clone()),
            (None, Some(uid)) => Sandbox::Process(uid),
            (None, None) => Sandbox::Unknown,
        };
        gathered.candidates.push(Candidate { addresses: ips, sandbox });
        gathered.namespaces.push(PodNamespace { netns, addresses });
    }
    Ok(gathered)
}

/// The namespace of a process among those that were found, opened if it is a new one.
fn seen<'a>(
    found: &'a mut BTreeMap<NetnsId, (Netns, Option<Process>)>,
    process: &Process,
) -> Option<&'a mut (Netns, Option<Process>)> {
    use std::collections::btree_map::Entry;
    match found.entry(process.netns) {
        Entry::Occupied(known) => Some(known.into_mut()),
        // A process that ended meanwhile, and whose number another has: the namespace is then another one.
        Entry::Vacant(free) => {
            let netns = Netns::open(&process.path).ok().filter(|netns| netns.id() == process.netns)?;
            Some(free.insert((netns, None)))
        }
    }
}

/// Opens what the cache names by its path on the node, by way of the node's first process, of the runtime or of our mounts.
fn open(grounds: &Grounds, root: Option<&NodeRoot>, path: &Path) -> Option<Netns> {
    match path.strip_prefix("/proc") {
        Ok(rest) => Netns::open(grounds.proc_dir.join(rest)).ok(),
        Err(_) => {
            let of_node = || root?.netns(path);
            of_node().or_else(|| Netns::open(grounds.netns_dir.join(path.file_name()?)).ok())
        }
    }
}

/// The newest entry without a path that has one of these addresses: how older libraries left it.
fn by_address<'a>(entries: &'a [CachedResult], addresses: &[IpAddr]) -> Option<&'a CachedResult> {
    let mut without_path = entries.iter().filter(|entry| entry.netns.is_none());
    without_path.find(|entry| entry.addresses.iter().any(|address| addresses.contains(address)))
}

/// Addresses in a namespace; `None` where it cannot be entered.
fn addresses(netns: &Netns) -> Option<Vec<Address>> {
    netns.enter_for_good().ok()?;
    Rtnetlink::open().and_then(|mut rtnetlink| rtnetlink.list()).ok()
}
