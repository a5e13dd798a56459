// SPDX-License-Identifier: Apache-2.0
//! Requirements of a scenario on a node that is there.

use cluster::{AgentStandIn, Kernel, NodePlan, RuntimeConf};
use remote::Session;

/// The first requirement that only a node that does not exist yet can meet.
pub(super) fn differs(node: &NodePlan, session: &Session) -> Option<&'static str> {
    // The node agent that brings the plugin gives it a configuration of its own (`agent::bring_plugin`).
    let configured = !node.plugin_conf.is_empty() && !node.is_brought(session.is_whole());
    let wanted = [
        (node.agent != AgentStandIn::Absent, "a stand-in for its agent"),
        (!node.plugin_env.is_empty(), "an environment of plugins"),
        (configured || !node.base_conf.is_empty(), "another network configuration"),
        (!node.run_files.is_empty(), "files of the run directory"),
        (node.kernel != Kernel::default(), "another kernel"),
        (node.runtime.is_some_and(|wanted| !session.has_runtime(wanted.name)), "another runtime"),
        (node.runtime_conf != RuntimeConf::default(), "another configuration of its runtime"),
        (
            node.cni_version
                .as_ref()
                .is_some_and(|wanted| !session.is_owned() || wanted != real::network::VERSION),
            "another version of CNI",
        ),
        (node.run_is_private, "a private /run"),
        (node.outside || node.pods_are_routed, "a network of its own"),
        (node.rp_filter.is_some(), "sysctls"),
    ];
    wanted.into_iter().find_map(|(differs, what)| differs.then_some(what))
}
