// SPDX-License-Identifier: Apache-2.0
//! Leftovers of a node, or of a cluster.

/// Failures that nobody was told of before the end.
#[derive(Debug, Clone, Default)]
pub struct Leftovers {
    /// Networks of pods that the chain did not take down: DELs that failed last.
    pub networks: Vec<String>,
    /// Faults of the lab.
    pub faults: Vec<String>,
}

impl Leftovers {
    /// Adds another node's.
    pub fn extend(&mut self, other: Self) {
        self.networks.extend(other.networks);
        self.faults.extend(other.faults);
    }
}
