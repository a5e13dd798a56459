// SPDX-License-Identifier: Apache-2.0
//! Where the node agent is, and the account of it and its plugin.

/// Namespace of the node agent and its service account.
pub const SYSTEM_NAMESPACE: &str = "istio-system";

/// DaemonSet of the node agent.
pub const DAEMONSET: &str = "istio-cni-node";

/// Service account of agent and plugin.
pub const SERVICE_ACCOUNT: &str = "istio-cni";

/// The user that requests of agent and plugin come from.
#[must_use]
pub fn plugin_user() -> String {
    system_user(SERVICE_ACCOUNT)
}

/// The user of a service account in the agent's namespace.
#[must_use]
pub fn system_user(account: &str) -> String {
    format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{account}")
}
