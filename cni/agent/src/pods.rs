// SPDX-License-Identifier: Apache-2.0
//! The node's pods as the API server tells of them, kept slim.

mod cache;
mod model;

#[cfg(test)]
mod tests;

pub use cache::{PodEvent, PodEvents, Pods};
pub use model::{
    ContainerState, ContainerStatus, NodeMetadata, NodePod, NodeSpec, PodIp, PodStatus, Terminated,
};
