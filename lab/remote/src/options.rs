// SPDX-License-Identifier: Apache-2.0
//! Options of a session.

use std::path::PathBuf;
use std::time::Duration;

/// A run that has a cluster to itself, for one scenario at a time: namespaces have the names that scenarios give them, a scenario may deploy the
/// node agent, and changes what it wants on the nodes.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Image of a proxy, with `istio-iptables` in its `PATH`.
    pub proxy: String,
}

/// Access to a cluster.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub kubeconfig: PathBuf,
    /// `exec` and `auth-provider` of its user
    pub may_execute: bool,
}

/// Options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    pub access: Access,
    /// `None` for a guest, which makes pods in namespaces of its own.
    pub whole: Option<Whole>,
    /// Image with the lab's `workload` binary in its `PATH`.
    pub image: String,
    /// Name of the run, unique among those of a cluster.
    pub run: String,
    /// Gets a line about what will be made in somebody's cluster, before anything is.
    pub tell: fn(&str),
    /// Deadline of the start and of the end of what the run makes.
    pub deadline: Duration,
    /// Deadline of an exchange of packets.
    pub exchange: Duration,
}
