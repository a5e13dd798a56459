// SPDX-License-Identifier: Apache-2.0
//! Use of the iptables tools.

use std::time::Duration;

/// Where the calling process lives, which decides what the iptables tools must be kept from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Surroundings {
    /// On the node, with a pod's network only: the tools see the node's files and locks.
    #[default]
    Node,
    /// In a container of the pod.
    Container,
}

/// Use of the iptables tools. The other back ends need none of it: what they do is one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Where the calling process lives.
    pub surroundings: Surroundings,
    /// Drop all traffic while rules that differ are replaced.
    pub reconcile: bool,
    /// Write rules that are there already once more.
    pub force: bool,
    /// Time for all tools together.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            surroundings: Surroundings::Node,
            reconcile: false,
            force: false,
            // A runtime gives a plugin minutes, a kubelet tries again at once; nothing that works takes as long as this.
            deadline: Duration::from_secs(10),
        }
    }
}
