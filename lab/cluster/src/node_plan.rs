// SPDX-License-Identifier: Apache-2.0
//! Requirements of a scenario on its node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::{AgentStandIn, Configuration, Installed, Kernel, RuntimeProfile};

/// Configuration of a container runtime, and how slow it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeConf {
    /// Time from a change of the configuration directory until it is loaded.
    pub lag: Duration,
    /// Time after which a call is killed, as where the kubelet's `runtimeRequestTimeout` is over.
    pub patience: Option<Duration>,
    /// `cni_default_network`: the network of that name, whichever file is the first.
    pub default_network: Option<String>,
}

/// A node that does not exist yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// Listener on the agent's socket.
    pub agent: AgentStandIn,
    /// Additional environment of every plugin.
    pub plugin_env: BTreeMap<String, String>,
    /// Defect that binaries under test play.
    pub mutant: Option<String>,
    /// Additional configuration of the plugin under test.
    pub plugin_conf: BTreeMap<String, Value>,
    /// Additional configuration of the base plugin.
    pub base_conf: BTreeMap<String, Value>,
    /// Files of the run directory.
    pub run_files: BTreeMap<String, String>,
    /// The kernel that the plugin under test runs on.
    pub kernel: Kernel,
    /// Installer of the plugin under test.
    pub installed: Installed,
    /// Container runtime, if a scenario means one.
    pub runtime: Option<&'static RuntimeProfile>,
    /// That runtime's configuration.
    pub runtime_conf: RuntimeConf,
    /// `cniVersion` of its network.
    pub cni_version: Option<String>,
    /// Its configuration directory over a reboot.
    pub configuration: Configuration,
    /// `/run` is no shared mount, as on nodes that are containers.
    pub run_is_private: bool,
    /// Probes take their real time.
    pub probes_in_real_time: bool,
    /// Number of nodes, if there is more than one. Steps that speak of the node mean the first.
    pub count: Option<usize>,
    /// A host outside of the cluster answers.
    pub outside: bool,
    /// The network outside knows where pods are, so that nobody masquerades them.
    pub pods_are_routed: bool,
    /// The API's service has an IPv6 address, and pods are told of that alone, as in a cluster of one family.
    pub service_is_ipv6: bool,
    /// `rp_filter` of the machines.
    pub rp_filter: Option<u8>,
}

impl NodePlan {
    /// True if the scenario finds a plugin on its node that an agent has to bring there.
    #[must_use]
    pub fn is_brought(&self, has_no_plugin: bool) -> bool {
        self.installed == Installed::ByLab && has_no_plugin
    }
}
