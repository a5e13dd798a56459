// SPDX-License-Identifier: Apache-2.0
//! A node: a network namespace of its own, a container runtime, a kubelet. What a pod's life consists of is here; who
//! decides that a pod is this node's is the cluster's business.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cluster::{Kernel, NodePaths, PodName, PodStart};
use futures::future::select_all;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::agent::Agent;
use crate::cni::call::Caller;
use crate::cni::chain::{Chain, ChainError};
use crate::containers::{self, Container, Surroundings};
use crate::error::Error;
use crate::netns::{Namespace, Role};
use crate::options::Options;
use crate::pod::Plan;
use crate::sandbox::Sandbox;
use crate::slot::{Parts, Slot, Stage};
use crate::status::{sandbox_event, status};

/// The file name of the kubeconfig in the run directory.
pub const KUBECONFIG: &str = "istio-cni-kubeconfig";
/// The plugin under test.
pub const PLUGIN: &str = "istio-cni";
/// The lab's base plugin.
pub const BASE_PLUGIN: &str = "lab-net";
/// A pod's interface in the node's second network.
pub const SECOND_INTERFACE: &str = "net1";

/// A node.
pub struct NetnsNode {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) paths: NodePaths,
    pub(crate) options: Options,
    pub(crate) chain: Chain,
    pub(crate) agent: Agent,
    api: kube::Client,
    number: u8,
    slots: Mutex<BTreeMap<PodName, Arc<Slot>>>,
    seen: watch::Sender<()>,
    /// The last field: what is inside goes first.
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
    pub async fn create(options: &Options, name: &str, number: u8, api: kube::Client) -> Result<Self, Error> {
        let directory = options.directory.join(name);
        let below = |part: &str| directory.join(part);
        let paths = NodePaths {
            conf_dir: below("net.d"),
            bin_dir: below("bin"),
            cache_dir: below("cache"),
            run_dir: below("run"),
            netns_dir: below("netns"),
        };
        for path in [&paths.conf_dir, &paths.bin_dir, &paths.cache_dir, &paths.run_dir, &paths.netns_dir] {
            fs::create_dir_all(path).map_err(Error::file("make", path))?;
        }
        for (name, text) in &options.run_files {
            let path = paths.run_dir.join(name);
            fs::write(&path, text).map_err(Error::file("write", path))?;
        }
        let binaries = &options.binaries;
        link(&binaries.workload, &paths.bin_dir.join(BASE_PLUGIN))?;
        if binaries.sut.join(PLUGIN).is_file() {
            link(&binaries.sut.join(PLUGIN), &paths.bin_dir.join(PLUGIN))?;
        }
        let netns = Namespace::create(&below("node.netns"), Role::Node).await?;
        let caller = Caller {
            bin_dir: paths.bin_dir.clone(),
            netns: netns.path().to_owned(),
            extra_env: binaries.sut_env.clone(),
            workload: binaries.workload.clone(),
            under_test: PLUGIN,
            kernel: of_node(&options.kernel, &directory),
            deadline: options.deadlines.plugin,
        };
        let agent = Agent::new(&binaries.workload, netns.path(), &paths.run_dir, &below("agent"))?;
        Ok(Self {
            name: name.to_owned(),
            chain: Chain::new(paths.clone(), caller, options.plugin_env.clone()),
            directory,
            paths,
            options: options.clone(),
            agent,
            api,
            number,
            slots: Mutex::default(),
            seen: watch::Sender::default(),
            netns,
        })
    }

    /// The node's default network: the base plugin, then the plugin under test.
    #[must_use]
    pub fn default_network(&self) -> Value {
        let mut plugin = json!({
            "type": PLUGIN,
            "plugin_log_level": "debug",
            "cni_agent_run_dir": self.paths.run_dir,
            "exclude_namespaces": ["kube-system"],
            "pod_namespace": crate::tier::SYSTEM_NAMESPACE,
        });
        for (key, value) in &self.options.plugin_conf {
            plugin[key] = value.clone();
        }
        let mut base = json!({
            "type": BASE_PLUGIN,
            "ranges": ranges("200", self.number),
            "networks": { SECOND_INTERFACE: ranges("201", self.number) },
            "stateDir": self.directory.join("ipam"),
            "capabilities": { "io.kubernetes.cri.pod-annotations": true },
        });
        for (key, value) in &self.options.base_conf {
            base[key] = value.clone();
        }
        json!({ "cniVersion": "1.0.0", "name": "lab", "plugins": [base, plugin] })
    }

    /// The pod of that name, if the node has it.
    #[must_use]
    pub fn slot(&self, pod: &PodName) -> Option<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(pod).cloned()
    }

    /// All pods of the node.
    #[must_use]
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
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
        let plan = Plan::new(object, &self.options.binaries)?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(&plan.pod).is_some_and(|slot| slot.plan.uid == plan.uid) {
            return Ok(None);
        }
        let slot = Arc::new(Slot::new(plan));
        slots.insert(slot.plan.pod.clone(), Arc::clone(&slot));
        drop(slots);
        self.seen.send_replace(());
        Ok(Some(slot))
    }

    /// Starts a pod: sandbox, chain, containers; reports its status. What goes wrong in the lab itself ends the start as
    /// a failed sandbox that says so.
    pub async fn start(&self, slot: &Arc<Slot>) -> PodStart {
        let mut parts = slot.parts.lock().await;
        if slot.is_gone() {
            return lab_failure(&Error::Missing("pod any more".to_owned()));
        }
        slot.reach(Stage::Starting);
        let start = match self.try_start(slot, &mut parts).await {
            Ok(start) => start,
            Err(error) => lab_failure(&error),
        };
        slot.show(&parts);
        self.report(slot, &parts, Some(&start)).await;
        slot.reach(Stage::Started(start.clone()));
        start
    }

    async fn try_start(&self, slot: &Slot, parts: &mut Parts) -> Result<PodStart, Error> {
        let plan = &slot.plan;
        self.agent.learn(&plan.facts)?;
        // After a start whose containers failed: the sandbox is kept, they begin anew.
        containers::stop(&mut parts.containers).await;
        if parts.sandbox.is_none() {
            let (node, attempt) = (self.netns.path(), parts.attempts);
            parts.attempts += 1;
            match Sandbox::create(plan, attempt, node, &self.paths.netns_dir, &self.chain).await {
                Ok(sandbox) => parts.sandbox = Some(sandbox),
                Err(ChainError::Lab(error)) => return Err(error),
                Err(ChainError::Chain(failure)) => {
                    let (code, message) = (failure.code, failure.message);
                    let message =
                        format!("failed to setup network for sandbox of pod {}: {message}", plan.pod.name);
                    return Ok(PodStart::SandboxFailed { code, message });
                }
            }
            slot.show(parts);
            self.report(slot, parts, None).await;
        }
        let Some(sandbox) = &parts.sandbox else { return Err(Error::Missing("sandbox".to_owned())) };
        let addresses = sandbox.addresses().to_vec();
        let surroundings = Surroundings {
            netns: sandbox.netns().to_owned(),
            resolv_conf: self.write_resolv_conf(plan)?,
            deadline: self.options.deadlines.process,
        };
        let show = |started: &[Container]| slot.show_containers(started);
        let failed = containers::start(plan, &surroundings, &mut parts.containers, show).await?;
        Ok(failed.unwrap_or(PodStart::Running { addresses }))
    }

    /// Where a pod's `resolv.conf` is.
    pub(crate) fn resolv_conf(&self, plan: &Plan) -> PathBuf {
        self.directory.join(format!("resolv.conf-{}", plan.uid))
    }

    fn write_resolv_conf(&self, plan: &Plan) -> Result<PathBuf, Error> {
        let path = self.resolv_conf(plan);
        fs::write(&path, &plan.resolv_conf).map_err(Error::file("write", &path))?;
        Ok(path)
    }

    /// Ends a pod: containers, chain, namespace; then its object goes.
    pub async fn stop(&self, slot: &Arc<Slot>) {
        let mut parts = slot.parts.lock().await;
        if slot.is_gone() {
            return;
        }
        containers::stop(&mut parts.containers).await;
        if let Some(sandbox) = parts.sandbox.take() {
            // What the chain said is on record; the namespace is gone either way.
            let _ = sandbox.remove(&self.chain).await;
        }
        let _ = self.agent.forget(&slot.plan.pod);
        let pods: Api<Pod> = Api::namespaced(self.api.clone(), &slot.plan.pod.namespace);
        let now = DeleteParams::default().grace_period(0);
        // Gone already if its deletion had no grace.
        let _ = pods.delete(&slot.plan.pod.name, &now).await;
        self.dismiss(slot);
        slot.reach(Stage::Gone);
    }

    fn dismiss(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(&slot.plan.pod).is_some_and(|current| Arc::ptr_eq(current, slot)) {
            slots.remove(&slot.plan.pod);
        }
    }

    /// Reports a container's end whenever one ends, until the pod is gone.
    pub async fn follow(&self, slot: &Arc<Slot>, start: &PodStart) {
        let mut running: Vec<_> = {
            let parts = slot.parts.lock().await;
            let alive = parts.containers.iter().filter(|container| container.process.exit().is_none());
            alive.map(|container| container.process.exits()).collect()
        };
        while !running.is_empty() && !slot.is_gone() {
            let ends = running
                .iter_mut()
                .map(|exit| Box::pin(async { exit.wait_for(Option::is_some).await.is_ok() }));
            let (_, ended, rest) = select_all(ends).await;
            drop(rest);
            running.remove(ended);
            let parts = slot.parts.lock().await;
            if parts.sandbox.is_some() {
                self.report(slot, &parts, Some(start)).await;
            }
        }
    }

    async fn report(&self, slot: &Slot, parts: &Parts, start: Option<&PodStart>) {
        let plan = &slot.plan;
        let addresses = parts.sandbox.as_ref().map_or(&[][..], Sandbox::addresses);
        let patch = status(plan, start, &parts.containers, addresses);
        let pods: Api<Pod> = Api::namespaced(self.api.clone(), &plan.pod.namespace);
        // A pod that was deleted meanwhile has no status to report.
        let _ = pods.patch_status(&plan.pod.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(PodStart::SandboxFailed { message, .. }) = start
            && let Ok(event) = serde_json::from_value::<Event>(sandbox_event(plan, &self.name, message))
        {
            let events: Api<Event> = Api::namespaced(self.api.clone(), &plan.pod.namespace);
            let _ = events.create(&PostParams::default(), &event).await;
        }
    }
}

fn lab_failure(error: &Error) -> PodStart {
    PodStart::SandboxFailed { code: None, message: format!("the lab failed: {error}") }
}

/// The ranges of a network on the node of this number, one for each family.
fn ranges(network: &str, node: u8) -> [String; 2] {
    [format!("10.{network}.{node}.0/24"), format!("fd00:{network}:{node}::/64")]
}

/// A kernel whose relative paths are this node's.
fn of_node(kernel: &Kernel, directory: &Path) -> Kernel {
    let deny = kernel.deny.iter().map(|path| directory.join(path)).collect();
    Kernel { deny, ..kernel.clone() }
}

fn link(to: &Path, at: &Path) -> Result<(), Error> {
    symlink(to, at).map_err(Error::file("link", at))
}
