// SPDX-License-Identifier: Apache-2.0
//! Leftovers of a node, or of a cluster.

use crate::LabError;

/// Failures that nobody was told of before the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Networks of pods that the chain did not take down: DELs that failed last, and failures of the plugin under test that its runtime only logs.
    pub networks: Vec<String>,
    /// Faults of the lab.
    pub faults: Vec<String>,
}

impl Leftovers {
    /// True if all was undone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.faults.is_empty()
    }

    /// Adds another node's.
    pub fn extend(&mut self, other: Self) {
        self.networks.extend(other.networks);
        self.faults.extend(other.faults);
    }

    /// Notes a step of an end, which is a fault if it failed; true if it did not.
    pub fn note(&mut self, step: Result<(), impl Into<LabError>>) -> bool {
        match step {
            Ok(()) => true,
            Err(error) => {
                self.faults.push(error.into().to_string());
                false
            }
        }
    }
}
