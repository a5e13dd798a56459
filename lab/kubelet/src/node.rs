// SPDX-License-Identifier: Apache-2.0
//! A node: a network namespace of its own, a container runtime, a kubelet. What a pod's life consists of is here; who
//! decides that a pod is this node's is the cluster's business.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cluster::profile::PodUid;
use cluster::{BASE_PLUGIN, Installed, Kernel, Leftovers, NodePaths, PodName, PodStart, SYSTEM_NAMESPACE};
use hand::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::agent::Agent;
use crate::api_access::ApiAccess;
use crate::cni::call::Caller;
use crate::cni::chain::Chain;
use crate::cni::multus::{self, Multus};
use crate::controllers::actions::{create, write_status};
use crate::controllers::owned::text;
use crate::error::Error;
use crate::netns::{self, Namespace, NamespaceRole};
use crate::network::Network;
use crate::options::ClusterOptions;
use crate::output::{KEPT_ERRORS, Output, may_be_error};
use crate::pids::Pids;
use crate::pod::{Binaries, Plan, Restart};
use crate::rootfs::SharedDirectory;
use crate::slot::{Parts, Slot};
use crate::status::{status, warning};
use crate::view::{Shown, View, Viewed};
use crate::volumes::Host;
use crate::wire;

/// The plugin under test.
pub const PLUGIN: &str = "istio-cni";
/// The imitated version: the API server's.
const KUBELET: &str = "v1.34.4";
/// Number of pods that a node takes, as kubelets do by default.
const PODS: u8 = 110;
/// Number of deleted pods whose output is kept.
const KEPT_PODS: usize = 64;

/// A node's root, in its directory.
const ROOT: &str = "root";
/// Directory of namespaces that no file of the node keeps, in its directory.
pub(crate) const ASIDE: &str = "aside";
/// A pod's interface in the node's second network.
pub const SECOND_INTERFACE: &str = "net1";

pub struct NetnsNode {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) paths: NodePaths,
    pub(crate) options: ClusterOptions,
    pub(crate) chain: Chain,
    pub(crate) agent: Agent,
    pub(crate) host: Host,
    pub(crate) access: ApiAccess,
    pub(crate) number: u8,
    pub(crate) boots: AtomicU32,
    slots: Mutex<BTreeMap<PodName, Arc<Slot>>>,
    seen: watch::Sender<()>,
    pub(crate) network: Mutex<Network>,
    pub(crate) is_short_of_memory: AtomicBool,
    /// It shuts down, or is turned off.
    pub(crate) is_down: watch::Sender<bool>,
    pub(crate) leftovers: Mutex<Leftovers>,
    /// Output of pods that are gone.
    past: Mutex<Past>,
    /// View of its programs.
    pub(crate) view: Viewed,
    /// The lab's process on the node, once somebody asked for it.
    pub(crate) hand: AsyncMutex<Option<Client>>,
    /// Mounts of later namespaces propagate through it.
    pub(crate) shared: SharedDirectory,
    /// The last field, dropped last: its contents go first.
    pub(crate) netns: Namespace,
}

impl fmt::Debug for NetnsNode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NetnsNode").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NetnsNode {
    /// Makes a node: its namespace, its directories with both plugins in them. `number` sets it apart from the others.
    ///
    /// # Errors
    /// The kernel or the file system refuses it.
    pub async fn create(options: &ClusterOptions, number: u8, access: &ApiAccess) -> Result<Self, Error> {
        let name = format!("{}-{number}", options.names.node);
        let directory = options.directory.join(&name);
        let below = |part: &str| directory.join(part);
        let host = Host::new(below(ROOT), !options.node.run_is_private);
        let paths = host.paths();
        lay_out(options, &paths)?;
        fs::create_dir_all(below(ASIDE)).map_err(Error::file("make", below(ASIDE)))?;
        let binaries = &options.binaries;
        // The view of its programs is made before any pod: namespaces and disks that come later propagate to it.
        let shared = SharedDirectory::new(&directory)?;
        let netns = Namespace::create(&below("node.netns"), NamespaceRole::Node).await?;
        netns::set_loopback_up(netns.path()).await?;
        netns::filter_reverse_paths(netns.path(), options.rp_filter()).await?;
        let view = Viewed::new(view(options, &directory, &host, &netns).await?);
        let multus = Multus::new(&binaries.workload, netns.path(), &host, &view, below("multus"))?;
        let caller = Caller {
            bin_dir: paths.bin_dir.clone(),
            netns: netns.path().to_owned(),
            extra_env: binaries.sut_env.clone(),
            workload: binaries.workload.clone(),
            under_test: PLUGIN,
            kernel: of_node(&options.node.kernel, &below(ROOT)),
            view: view.clone(),
            chaos: options.chaos.clone(),
            deadline: options.deadlines.plugin,
            patience: options.node.runtime_conf.patience,
        };
        let agent = Agent::new(&binaries.workload, (netns.path(), &view), &paths.run_dir, &below("agent"))?;
        let environment = options.node.plugin_env.clone();
        let runtime = (options.runtime(), options.node.runtime_conf.clone());
        Ok(Self {
            name,
            chain: Chain::new(paths.clone(), caller, multus, environment, runtime)?,
            directory,
            paths,
            options: options.clone(),
            agent,
            host,
            access: access.clone(),
            number,
            boots: AtomicU32::new(1),
            slots: Mutex::default(),
            seen: watch::Sender::default(),
            network: Mutex::default(),
            is_short_of_memory: AtomicBool::default(),
            is_down: watch::Sender::new(false),
            leftovers: Mutex::default(),
            past: Mutex::default(),
            view,
            hand: AsyncMutex::default(),
            shared,
            netns,
        })
    }

    /// View of its programs after a boot.
    pub(crate) async fn look(&self) -> Result<View, Error> {
        view(&self.options, &self.directory, &self.host, &self.netns).await
    }

    /// The node's default network: the base plugin, then the plugin under test.
    #[must_use]
    pub fn default_network(&self) -> Value {
        let mut plugin = json!({
            "type": PLUGIN,
            "plugin_log_level": "debug",
            "cni_agent_run_dir": self.paths.run_dir,
            "exclude_namespaces": ["kube-system"],
            "pod_namespace": SYSTEM_NAMESPACE,
        });
        for (key, value) in &self.options.node.plugin_conf {
            plugin[key] = value.clone();
        }
        let mut base = json!({
            "type": BASE_PLUGIN,
            "ranges": wire::ranges(self.options.names.pods, self.number),
            "networks": { SECOND_INTERFACE: wire::ranges(self.options.names.second, self.number) },
            "stateDir": self.directory.join("ipam"),
            "capabilities": { "io.kubernetes.cri.pod-annotations": true },
        });
        for (key, value) in &self.options.node.base_conf {
            base[key] = value.clone();
        }
        let plugins = match self.options.node.installed {
            Installed::ByLab => json!([base, plugin]),
            Installed::ByAgent => json!([base]),
        };
        let version = self.options.node.cni_version.as_deref().unwrap_or("1.0.0");
        json!({ "cniVersion": version, "name": "lab", "plugins": plugins })
    }

    /// Addresses of the machine, if it has a network.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let own = self.options.is_wired().then(|| wire::addresses(self.number));
        own.into_iter().flatten().filter_map(|address| address.parse().ok()).collect()
    }

    /// Number of boots.
    pub(crate) fn boots(&self) -> u32 {
        self.boots.load(Ordering::Relaxed)
    }

    /// Status that the kubelet reports right after boot.
    #[must_use]
    pub fn machine_status(&self) -> Value {
        let boot = format!("{}-{}", self.name, self.boots());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let info = json!({
            "bootID": boot, "kubeletVersion": KUBELET, "kernelVersion": kernel.trim(), "osImage": "cnilab",
            "containerRuntimeVersion": self.options.runtime().version,
            "operatingSystem": "linux", "architecture": cluster::architecture(),
            "machineID": "", "systemUUID": "", "kubeProxyVersion": "",
        });
        let own = self.addresses().into_iter();
        let own = own.map(|address| json!({ "type": "InternalIP", "address": address }));
        let addresses: Vec<_> = own.chain([json!({ "type": "Hostname", "address": self.name })]).collect();
        let room = json!({ "cpu": "2", "memory": "4Gi", "pods": PODS.to_string() });
        json!({
            "conditions": self.conditions(), "nodeInfo": info, "addresses": addresses,
            "capacity": room, "allocatable": room,
        })
    }

    /// The pod of that name, if it is on the node.
    #[must_use]
    pub fn slot(&self, pod: &PodName) -> Option<Arc<Slot>> {
        self.slots.lock().get(pod).cloned()
    }

    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().values().cloned().collect()
    }

    /// Waits until the node has a pod of that name.
    pub async fn until_seen(&self, pod: &PodName) -> Arc<Slot> {
        let mut seen = self.seen.subscribe();
        loop {
            seen.borrow_and_update();
            if let Some(slot) = self.slot(pod) {
                return slot;
            }
            // The sender lives in `self`.
            let _ = seen.changed().await;
        }
    }

    /// Takes on a pod that was assigned to the node; `None` if the node has it already.
    ///
    /// # Errors
    /// The object is no pod.
    pub fn admit(&self, object: &Value) -> Result<Option<Arc<Slot>>, Error> {
        let name = PodName::new(text(object, "namespace"), text(object, "name"));
        if self.slot(&name).is_some_and(|slot| slot.plan.uid == text(object, "uid")) {
            return Ok(None);
        }
        let mut plan = Plan::new(object, &self.options.binaries)?;
        if self.options.runtime().pod_uid == PodUid::Withheld {
            plan.runtime_uid.clear();
        }
        let slot = Arc::new(Slot::new(plan));
        self.slots.lock().insert(name, Arc::clone(&slot));
        self.seen.send_replace(());
        Ok(Some(slot))
    }

    pub(crate) fn dismiss(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if slots.get(&slot.plan.pod).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&slot.plan.pod);
        }
        self.past.lock().push(printed(slot));
    }

    /// Output of its containers, `namespace/pod container: line`, those of deleted pods first.
    pub(crate) fn logs(&self) -> Vec<String> {
        let past = self.past.lock().lines();
        past.into_iter().chain(self.slots().iter().map(printed).flat_map(lines)).collect()
    }

    pub(crate) async fn report(&self, slot: &Slot, parts: &mut Parts) {
        let plan = &slot.plan;
        for container in &mut parts.containers {
            container.end_told = !container.runs();
        }
        let patch = status(plan, parts, self.options.back_off.is_some(), &self.addresses());
        // A pod that was deleted meanwhile has no status to report.
        let _ = self.tell_status(&plan.pod, patch).await;
        let failed = match &parts.start {
            Some(PodStart::SandboxFailed { message, .. } | PodStart::LabFailed { why: message }) => {
                Some(message)
            }
            _ => None,
        };
        if let (Some(message), false) = (failed, parts.lacks_network) {
            self.tell(plan, "FailedCreatePodSandBox", message).await;
        }
    }

    /// Reports a pod whose containers have ended for good, whatever its restart policy.
    pub(crate) async fn report_last(&self, slot: &Slot, parts: &mut Parts) {
        let patch = self.last_status(slot, parts);
        let _ = self.tell_status(&slot.plan.pod, patch).await;
    }

    /// Tells the API server of a pod's status.
    pub(crate) async fn tell_status(&self, pod: &PodName, patch: Value) -> Result<(), Error> {
        write_status(&self.access.client, ("Pod", &pod.namespace, &pod.name), patch).await
    }

    /// Status of a pod whose containers have ended for good.
    pub(crate) fn last_status(&self, slot: &Slot, parts: &mut Parts) -> Value {
        status(&Plan { restart: Restart::Never, ..slot.plan.clone() }, parts, false, &self.addresses())
    }

    pub(crate) async fn tell(&self, plan: &Plan, reason: &str, message: &str) {
        // Nobody waits for an event.
        let _ = create(&self.access.client, "Event", warning(plan, &self.name, reason, message)).await;
    }
}

/// A pod and the output of its containers.
type Printed = (PodName, Vec<(String, Output)>);

/// Output of pods that are gone: of those before the last ones, the lines that may tell of an error.
#[derive(Default)]
struct Past {
    pods: VecDeque<Printed>,
    errors: Vec<String>,
}

impl Past {
    fn push(&mut self, gone: Printed) {
        if self.pods.len() == KEPT_PODS
            && let Some(oldest) = self.pods.pop_front()
        {
            let errors = lines(oldest).into_iter().filter(|line| may_be_error(line));
            self.errors.extend(errors.take(KEPT_ERRORS.saturating_sub(self.errors.len())));
        }
        self.pods.push_back(gone);
    }

    fn lines(&self) -> Vec<String> {
        self.errors.iter().cloned().chain(self.pods.iter().cloned().flat_map(lines)).collect()
    }
}

fn printed(slot: &Arc<Slot>) -> Printed {
    (slot.plan.pod.clone(), slot.shown().outputs)
}

fn lines((pod, outputs): Printed) -> Vec<String> {
    let of = |(container, output): (String, Output)| {
        let begin = format!("{}/{} {container}: ", pod.namespace, pod.name);
        output.lines().into_iter().map(move |line| format!("{begin}{line}")).collect::<Vec<_>>()
    };
    outputs.into_iter().flat_map(of).collect()
}

/// A kernel whose relative paths are this node's.
fn of_node(kernel: &Kernel, root: &Path) -> Kernel {
    let deny = kernel.deny.iter().map(|path| root.join(path)).collect();
    Kernel { deny, ..kernel.clone() }
}

/// Begins the node's processes, and makes the view of its programs.
async fn view(
    options: &ClusterOptions,
    directory: &Path,
    host: &Host,
    netns: &Namespace,
) -> Result<View, Error> {
    let Binaries { workload, sut, .. } = &options.binaries;
    let pids = Pids::start(workload, netns.path(), host.root()).await?;
    let shown = Shown {
        base: directory.with_extension("view"),
        directory: directory.to_owned(),
        programs: vec![workload.clone(), sut.clone()],
        mounts: if options.node.installed == Installed::ByAgent { host.shown() } else { Vec::new() },
    };
    View::of(shown, netns.path(), pids).await
}

fn link(to: &Path, at: &Path) -> Result<(), Error> {
    symlink(to, at).map_err(Error::file("link", at))
}

/// Makes the node's directories, and what is in them before anybody does anything.
fn lay_out(options: &ClusterOptions, paths: &NodePaths) -> Result<(), Error> {
    for path in [&paths.conf_dir, &paths.bin_dir, &paths.cache_dir, &paths.run_dir, &paths.netns_dir] {
        fs::create_dir_all(path).map_err(Error::file("make", path))?;
    }
    for (name, text) in &options.node.run_files {
        let path = paths.run_dir.join(name);
        fs::write(&path, text).map_err(Error::file("write", path))?;
    }
    let binaries = &options.binaries;
    for name in [BASE_PLUGIN].into_iter().chain(multus::TYPES) {
        link(&binaries.workload, &paths.bin_dir.join(name))?;
    }
    if options.node.installed == Installed::ByLab && binaries.sut.join(PLUGIN).is_file() {
        link(&binaries.sut.join(PLUGIN), &paths.bin_dir.join(PLUGIN))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_pod_that_is_long_gone_stays() {
        let gone = |number: usize| {
            let output = Output::default();
            output.stream(output.begin()).push(format!("error {number}"));
            output.stream(1).push("all is well".to_owned());
            (PodName::new("shop", &format!("p{number}")), vec![("app".to_owned(), output)])
        };
        let mut past = Past::default();
        (0..=KEPT_PODS).for_each(|number| past.push(gone(number)));
        let lines = past.lines();
        assert_eq!(lines[..2], ["shop/p0 app: error 0".to_owned(), "shop/p1 app: error 1".to_owned()]);
        assert_eq!(lines.len(), 1 + 2 * KEPT_PODS);
    }
}
