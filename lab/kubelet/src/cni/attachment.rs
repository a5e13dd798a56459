// SPDX-License-Identifier: Apache-2.0
//! An attachment of a pod to a network, and whose failure a call about it is.

use std::collections::BTreeMap;

use cluster::ChainFailure;
use serde_json::Value;

use super::result::IFNAME;
use crate::error::Error;

/// An attachment to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// `CNI_CONTAINERID`
    pub container_id: String,
    /// `CNI_NETNS`; empty when the namespace is gone.
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`, in order.
    pub args: Vec<(String, String)>,
    /// Runtime's value for each capability.
    pub capabilities: BTreeMap<String, Value>,
}

impl Default for Attachment {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            netns: String::new(),
            ifname: IFNAME.to_owned(),
            args: Vec::new(),
            capabilities: BTreeMap::new(),
        }
    }
}

/// Failure of a chain's call: the chain's, or the harness'.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The chain's: an answer of the system under test.
    #[error(transparent)]
    Chain(#[from] ChainFailure),
    #[error(transparent)]
    Lab(#[from] Error),
}
