// SPDX-License-Identifier: Apache-2.0
//! The node's pods as the API server tells of them, kept slim.

mod cache;
mod model;

#[cfg(test)]
mod tests;

pub use cache::{Health, Pods, Tidings, Told};
pub use model::{ContainerStatus, NodeMetadata, NodePod, NodeSpec, PodIp, State, Status, Terminated};
