// SPDX-License-Identifier: Apache-2.0
//! How a cluster of this tier is set up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{AgentStandIn, Kernel};
use serde_json::Value;

use crate::cni::cache::Layout;
use crate::pod::Binaries;

/// How long things may take before the lab says that they did not happen. Far above what they take, because a wrong
/// "did not happen" is worse than a late one.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// One call of a plugin. The plugin under test has a deadline of its own, below this one.
    pub plugin: Duration,
    /// A process until its first line, an init container until its end.
    pub process: Duration,
    /// A pod's whole start, where a caller names no deadline.
    pub pod: Duration,
    /// One exchange of a client: what is silent so long is silence.
    pub exchange: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            plugin: Duration::from_secs(60),
            process: Duration::from_secs(10),
            pod: Duration::from_secs(90),
            exchange: Duration::from_secs(1),
        }
    }
}

/// Who puts the plugin under test on the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Installed {
    /// The lab: binary, credentials and configuration are there from the start.
    #[default]
    ByLab,
    /// The agent under test; a node has nothing but its own network at first.
    ByAgent,
}

/// Where pods and nodes reach the API server if an agent installs the plugin: address and port.
pub const SERVICE: (&str, u16) = ("10.96.0.1", 443);
/// The same for those who only have IPv6.
pub const SERVICE_V6: &str = "fd00:96::1";

/// How a cluster is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory of the cluster's own, made by it, below `/run`.
    pub directory: PathBuf,
    /// The binaries.
    pub binaries: Binaries,
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// What stands in for the agent at first.
    pub agent: AgentStandIn,
    /// What every plugin gets in its environment beside CNI's own variables.
    pub plugin_env: BTreeMap<String, String>,
    /// What the plugin under test gets in its configuration beside what it needs.
    pub plugin_conf: BTreeMap<String, Value>,
    /// What the lab's base plugin gets in its configuration beside what it needs.
    pub base_conf: BTreeMap<String, Value>,
    /// Files of the run directory, by name.
    pub run_files: BTreeMap<String, String>,
    /// The kernel that the plugin under test runs on.
    pub kernel: Kernel,
    /// Who installs the plugin under test.
    pub installed: Installed,
    /// What the runtime remembers of sandboxes.
    pub cache: Layout,
    /// Whether the runtime passes plugins no `K8S_POD_UID`, as cri-dockerd (its `buildCNIRuntimeConf` has namespace, name and container only).
    pub uid_is_withheld: bool,
    /// How long the kubelet waits before it tries something a second time, and twice as long before each further one; without, a
    /// pod has one start and nothing is tried again.
    pub back_off: Option<Duration>,
    /// Whether `/run` of nodes is a shared mount, as systemd makes it. Nodes that are containers (k3d, Docker Desktop) have none, and runtimes
    /// refuse a container that asks for `HostToContainer` there.
    pub run_is_shared: bool,
    /// Whether the image has the system's tools beside our programs. Ours has not; one of a user's may.
    pub image_has_tools: bool,
    /// Whether probes begin when a kubelet's would: after `initialDelaySeconds`, readiness not before the startup probe succeeded. Otherwise
    /// readiness alone is probed, from the start, as scenarios wait for it by the hundred.
    pub probes_in_time: bool,
    /// How often readiness is probed.
    pub probe_every: Duration,
    /// How long a container's token lives.
    pub token_life: Duration,
    /// Deadlines.
    pub deadlines: Deadlines,
}

impl Options {
    /// One node, without an agent, with the default network.
    #[must_use]
    pub fn new(directory: &Path, workload: &Path, sut: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            binaries: Binaries {
                workload: workload.to_owned(),
                sut: sut.to_owned(),
                sut_env: BTreeMap::new(),
            },
            nodes: vec!["node-1".to_owned()],
            agent: AgentStandIn::Absent,
            plugin_env: BTreeMap::new(),
            plugin_conf: BTreeMap::new(),
            base_conf: BTreeMap::new(),
            run_files: BTreeMap::new(),
            kernel: Kernel::default(),
            installed: Installed::default(),
            cache: Layout::default(),
            uid_is_withheld: false,
            back_off: None,
            run_is_shared: true,
            image_has_tools: false,
            probes_in_time: false,
            probe_every: Duration::from_millis(50),
            token_life: Duration::from_secs(3600),
            deadlines: Deadlines::default(),
        }
    }
}
