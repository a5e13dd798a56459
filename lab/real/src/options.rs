// SPDX-License-Identifier: Apache-2.0
//! What a cluster is wanted to be.

use std::path::PathBuf;

use crate::image::Image;
use crate::programs::Programs;

/// A cluster that is wanted.
#[derive(Debug)]
pub struct ClusterOptions {
    pub programs: Programs,
    pub nodes: u8,
    /// Files of control plane and nodes; gone with the lab.
    pub directory: PathBuf,
    /// Logs of all programs.
    pub logs: PathBuf,
    pub images: Vec<Image>,
    /// Name of its cgroups.
    pub cgroup: String,
    /// Where calls of the network's first plugin are recorded.
    pub record: Option<PathBuf>,
}
