// SPDX-License-Identifier: Apache-2.0
//! Settings of a cluster.

use std::path::PathBuf;

use apiserver::ApiServer;

use crate::image::Image;
use crate::programs::Programs;

/// A cluster that is wanted.
#[derive(Debug)]
pub struct ClusterOptions {
    pub programs: Programs,
    /// An embedded API server that nodes join, with whoever follows its objects; without one the control plane is a real one.
    pub joined: Option<ApiServer>,
    pub nodes: u8,
    /// Files of control plane and nodes; gone with the lab.
    pub directory: PathBuf,
    /// Logs of all programs.
    pub logs: PathBuf,
    pub images: Vec<Image>,
    /// Name of its cgroups.
    pub cgroup: String,
    /// File for the calls of the network's first plugin, see [`crate::network::Network::record`].
    pub record: Option<PathBuf>,
}
