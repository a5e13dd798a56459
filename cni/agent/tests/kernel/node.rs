// SPDX-License-Identifier: Apache-2.0
//! A node: directories as the agent sees them, pods' namespaces below one of them, and questions to the process that enters those.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::repair::ask::{BackendWanted, ChildRequest, Evidence, PodOutcome, TargetPod, Task};
use agent::repair::child::Program;
use agent::repair::gather::Grounds;
use futures::TryStreamExt as _;
use netfilter::{LookError, Netns, look};
use nix::mount::{MntFlags, umount2};
use protocol::pod::PodFacts;
use redirect::{Enrolment, enrol};
use rig::link::{add_address, ask, up};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope};
use rtnetlink::{Error, Handle, LinkUnspec, LinkVeth, RouteMessageBuilder};
use serde_json::{Value, json};

/// Deadline of a repair while eight others build.
const LIMIT: Duration = Duration::from_secs(60);

/// Scratch node, removed on drop.
pub(crate) struct Node {
    dir: tempfile::TempDir,
    mounted: Vec<PathBuf>,
    backend: &'static str,
    /// Mounts of namespaces, below the directory.
    netns_dir: &'static str,
    proc_dir: PathBuf,
}

impl Node {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["netns", "cni/results", "run"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        Self { dir, mounted: Vec::new(), backend: "auto", netns_dir: "netns", proc_dir: "/proc".into() }
    }

    /// A node that mounts its namespaces where its first process sees them, and the agent has no mount of it.
    pub(crate) fn seen_by_its_first_process() -> Self {
        let mut node = Self::new();
        node.netns_dir = "root/run/netns";
        node.proc_dir = node.dir.path().join("proc");
        let root = node.dir.path().join("root");
        for directory in [node.proc_dir.join("1"), root.join("run/netns"), root.join("var")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink(&root, node.proc_dir.join("1/root")).unwrap();
        symlink("/run", root.join("var/run")).unwrap();
        node
    }

    pub(crate) fn with_backend(backend: &'static str) -> Self {
        let mut node = Self::new();
        node.backend = backend;
        node
    }

    /// Makes a namespace with an interface that has these addresses, and mounts it.
    pub(crate) fn namespace(&mut self, name: &str, addresses: &[&str]) -> PathBuf {
        let file = self.dir.path().join(self.netns_dir).join(name);
        rig::netns::mounted(&file, || {
            up(&[]);
            ask(async |handle| furnish(&handle, addresses).await);
        });
        self.mounted.push(file.clone());
        file
    }

    /// Writes an entry of the runtime's cache: the pod's name and UID, and what the entry says of its network.
    pub(crate) fn cached(&self, (name, uid): (&str, &str), network: &Value) {
        let mut entry = json!({
            "kind": "cniCacheV1", "containerId": uid, "ifName": "eth0", "networkName": "net",
            "cniArgs": [["K8S_POD_NAMESPACE", "shop"], ["K8S_POD_NAME", name], ["K8S_POD_UID", uid]],
        });
        entry.as_object_mut().unwrap().extend(network.as_object().unwrap().clone());
        fs::write(self.dir.path().join("cni/results").join(uid), entry.to_string()).unwrap();
    }

    /// Request about these pods.
    pub(crate) fn request(&self, task: Task, pods: Vec<TargetPod>) -> ChildRequest {
        let path = |name: &str| self.dir.path().join(name);
        ChildRequest {
            task,
            grounds: Grounds {
                netns_dir: path("netns"),
                node_netns_dir: "/var/run/netns".into(),
                cache_dir: path("cni"),
                proc_dir: self.proc_dir.clone(),
            },
            backend: BackendWanted { wish: self.backend.parse().unwrap(), record: path("run/backend") },
            pods,
        }
    }

    /// Outcome of a request for pod `cart` of UID `u-1`.
    pub(crate) fn ask(&self, task: Task, addresses: &[&str], annotations: &Value) -> PodOutcome {
        self.ask_about(task, addresses, cart(annotations))
    }

    /// The same for this pod.
    pub(crate) fn ask_about(&self, task: Task, addresses: &[&str], pod: Value) -> PodOutcome {
        let request = self.request(task, vec![target(addresses, pod)]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let program = Program(env!("CARGO_BIN_EXE_install-cni").into());
        runtime.block_on(program.ask(&request, LIMIT)).unwrap().outcomes.remove(0)
    }
}

/// Pod `cart` with these addresses, as the agent hands it to its child.
fn target(addresses: &[&str], pod: Value) -> TargetPod {
    let facts: PodFacts = serde_json::from_value(pod).unwrap();
    let Enrolment::Enrol(redirect) = enrol(&facts).unwrap() else { panic!("it is of the mesh") };
    TargetPod {
        identity: (&facts.metadata).into(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        redirect: *redirect,
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for file in &self.mounted {
            umount2(file, MntFlags::MNT_DETACH).unwrap();
        }
    }
}

/// Pod `cart` of UID `u-1`, injected for both families.
pub(crate) fn cart(annotations: &Value) -> Value {
    let mut annotations = annotations.clone();
    annotations["sidecar.istio.io/status"] = json!("{}");
    let dual = json!({"name": "ISTIO_DUAL_STACK", "value": "true"});
    let proxy = json!({"name": "istio-proxy", "args": ["proxy", "sidecar"], "env": [dual]});
    json!({
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u-1", "annotations": annotations},
        "spec": {"containers": [proxy, {"name": "app"}]},
    })
}

/// Gives the calling thread's namespace an interface with these addresses, by which everything goes.
async fn furnish(handle: &Handle, addresses: &[&str]) -> Result<(), Error> {
    handle.link().add(LinkVeth::new(POD, NODE).build()).execute().await?;
    for name in [NODE, POD] {
        let message = LinkUnspec::new_with_index(index(handle, name).await?).up().build();
        handle.link().change(message).execute().await?;
    }
    let link = index(handle, POD).await?;
    for address in addresses {
        let (address, length) = address.split_once('/').unwrap();
        let address: IpAddr = address.parse().unwrap();
        add_address(handle, link, address, length.parse().unwrap()).await?;
        handle.route().add(everywhere(address, link)).execute().await?;
    }
    Ok(())
}

/// Ends of the veth pair: the pod's, and the node's.
const POD: &str = "eth0";
const NODE: &str = "eth1";

async fn index(handle: &Handle, name: &str) -> Result<u32, Error> {
    let link = handle.link().get().match_name(name.to_owned()).execute().try_next().await?;
    Ok(link.unwrap().header.index)
}

/// Default route of an address' family.
fn everywhere(of: IpAddr, link: u32) -> RouteMessage {
    let any: IpAddr = if of.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let route = RouteMessageBuilder::<IpAddr>::new().destination_prefix(any, 0).unwrap();
    route.output_interface(link).scope(RouteScope::Link).build()
}

/// Deletes the default route of IPv4 in the calling thread's namespace.
pub(crate) fn lose_route() {
    ask(async |handle| {
        let link = index(&handle, POD).await?;
        handle.route().del(everywhere(Ipv4Addr::LOCALHOST.into(), link)).execute().await
    });
}

/// As Kata Containers' tcfilter leaves the calling thread's namespace: whatever comes in by the pod's interface goes to `tap`, and back. The guest's
/// device is a stand-in.
pub(crate) fn divert(tap: &'static str) {
    ask(async |handle| {
        handle.link().add(LinkVeth::new(tap, "guest").build()).execute().await?;
        let (pod, guest) = (index(&handle, POD).await?, index(&handle, tap).await?);
        for (from, to) in [(pod, guest), (guest, pod)] {
            let from = i32::try_from(from).unwrap();
            handle.qdisc().add(from).ingress().execute().await?;
            let filter = handle.traffic_filter(from).add().ingress().protocol(ALL_PROTOCOLS);
            filter.redirect(to)?.execute().await?;
        }
        Ok(())
    });
}

/// `ETH_P_ALL` in network order.
const ALL_PROTOCOLS: u16 = 0x0003_u16.to_be();

/// Runs a closure in a namespace, on a thread of its own.
pub(crate) fn inside<T: Send + 'static>(file: &Path, work: impl FnOnce() -> T + Send + 'static) -> T {
    let netns = Netns::open(file).unwrap();
    std::thread::spawn(move || {
        netns.enter_for_good().unwrap();
        work()
    })
    .join()
    .unwrap()
}

/// True if a namespace holds no rules at all.
pub(crate) fn is_untouched(file: &Path) -> bool {
    let found: Result<_, LookError> = inside(file, look);
    found.unwrap().tables.iter().all(|table| table.chains.iter().all(|chain| chain.rules.is_empty()))
}

/// Families proven by a packet, if the outcome is a repair.
pub(crate) fn proven(outcome: &PodOutcome) -> Vec<&str> {
    let PodOutcome::Proven { families, .. } = outcome else { panic!("{outcome:?}") };
    let by_packet =
        families.iter().filter(|one| matches!(one.evidence, Evidence::Packet { port: 15001, .. }));
    by_packet.map(|one| one.family.as_str()).collect()
}
