// SPDX-License-Identifier: Apache-2.0
//! Requirements of a scenario on its node.

use std::collections::BTreeMap;

use cluster::{AgentStandIn, Configuration, Installed, Kernel, RuntimeProfile};
use remote::Session;
use serde_json::Value;

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
    /// `rp_filter` of the machines.
    pub rp_filter: Option<u8>,
}

impl NodePlan {
    /// True if the scenario finds a plugin on its node that an agent has to bring there.
    #[must_use]
    pub fn is_brought(&self, has_no_plugin: bool) -> bool {
        self.installed == Installed::ByLab && has_no_plugin
    }

    /// The first requirement that only a node that does not exist yet can meet.
    pub(super) fn differs(&self, session: &Session) -> Option<&'static str> {
        // The node agent that brings the plugin gives it a configuration of its own (`agent::bring_plugin`).
        let configured = !self.plugin_conf.is_empty() && !self.is_brought(session.is_whole());
        let wanted = [
            (self.agent != AgentStandIn::Absent, "a stand-in for its agent"),
            (!self.plugin_env.is_empty(), "an environment of plugins"),
            (configured || !self.base_conf.is_empty(), "another network configuration"),
            (!self.run_files.is_empty(), "files of the run directory"),
            (self.kernel != Kernel::default(), "another kernel"),
            (self.runtime.is_some_and(|wanted| !session.has_runtime(wanted.name)), "another runtime"),
            (
                self.cni_version
                    .as_ref()
                    .is_some_and(|wanted| !session.is_owned() || wanted != real::network::VERSION),
                "another version of CNI",
            ),
            (self.run_is_private, "a private /run"),
            (self.outside || self.pods_are_routed, "a network of its own"),
            (self.rp_filter.is_some(), "sysctls"),
        ];
        wanted.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }
}
