// SPDX-License-Identifier: Apache-2.0
//! Options of a cluster of this tier.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{Chaos, Installed, NodePlan, RuntimeProfile};

use crate::api_access::ApiAccess;
use crate::images::Images;
use crate::pod::Binaries;

/// Deadlines of the lab. Far above typical durations, because a wrong "did not happen" is worse than a late one.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// One call of a plugin. The plugin under test has a deadline of its own, below this one.
    pub plugin: Duration,
    /// A process until its first line, an init container until its end.
    pub process: Duration,
    /// Start of a pod, where a caller names no deadline.
    pub pod: Duration,
    /// One exchange of a client: silence beyond it counts as no answer.
    pub exchange: Duration,
}

impl Deadlines {
    /// All of them, so many times as long.
    #[must_use]
    pub fn stretched(self, times: u32) -> Self {
        let Self { plugin, process, pod, exchange } = self;
        Self {
            plugin: plugin * times,
            process: process * times,
            pod: pod * times,
            exchange: exchange * times,
        }
    }
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

/// So many seconds of a real node in the lab's time, which is forty times as fast: a kubelet's first backoff is 250 ms here, not 10 s.
#[must_use]
pub const fn scaled(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 25)
}

/// Where pods and nodes reach the API server if an agent installs the plugin: address and port.
pub const SERVICE: (&str, u16) = ("10.96.0.1", 443);
/// The same for IPv6-only clusters.
pub const SERVICE_V6: &str = "fd00:96::1";

/// Names and addresses of a cluster that scenarios do not depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Before the number of a node and a hyphen.
    pub node: String,
    /// Second part of the pods' addresses, and of those in a second network: `10.200.NODE.POD`, `fd00:200:NODE::POD`.
    pub pods: u8,
    pub second: u8,
}

impl Default for Names {
    fn default() -> Self {
        Self { node: "node".to_owned(), pods: 200, second: 201 }
    }
}

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// A directory of the cluster's own, made by it, below `/run`.
    pub directory: PathBuf,
    pub binaries: Binaries,
    /// Requirements on its nodes, but for the defect, and the time of probes.
    pub node: NodePlan,
    /// Images of the nodes.
    pub images: Images,
    pub names: Names,
    /// First backoff of the kubelet, which doubles; without it a pod has one start and nothing is retried.
    pub back_off: Option<Duration>,
    /// Length of a second of the containers' probes.
    pub probe_second: Duration,
    pub deadlines: Deadlines,
    /// Factor of deadlines, its own and those of who waits for it: how much slower than usual the machine is.
    pub patience: u32,
    /// Delays of the lab's own actors.
    pub chaos: Chaos,
    /// An API server that its nodes join; without one it has its own.
    pub joined: Option<ApiAccess>,
}

impl ClusterOptions {
    /// True if nodes have addresses and a network of their own. Most scenarios have one node whose pods talk to each other.
    #[must_use]
    pub fn is_wired(&self) -> bool {
        self.count() > 1 || self.node.outside || self.node.installed == Installed::ByAgent
    }

    /// Number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.node.count.unwrap_or(1)
    }

    /// `rp_filter` of the machines: of their own namespaces, and, as the kernel hands it on, of those of pods.
    pub(crate) fn rp_filter(&self) -> u8 {
        self.node.rp_filter.unwrap_or(0)
    }

    /// Container runtime of the nodes.
    pub(crate) fn runtime(&self) -> &'static RuntimeProfile {
        self.node.runtime.unwrap_or_default()
    }

    /// A time of a container's probes, in the cluster's time.
    pub(crate) fn probed_in(&self, time: Duration) -> Duration {
        time.mul_f64(self.probe_second.as_secs_f64())
    }

    /// One node, without an agent, with the default network.
    #[must_use]
    pub fn new(directory: &Path, workload: &Path, sut: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            binaries: Binaries {
                workload: workload.to_owned(),
                sut: sut.to_owned(),
                image: Vec::new(),
                sut_env: BTreeMap::new(),
            },
            node: NodePlan::default(),
            images: Images::default(),
            names: Names::default(),
            back_off: None,
            probe_second: scaled(1),
            deadlines: Deadlines::default(),
            patience: 1,
            chaos: Chaos::default(),
            joined: None,
        }
    }
}
