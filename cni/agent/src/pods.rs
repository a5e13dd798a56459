// SPDX-License-Identifier: Apache-2.0
//! The node's pods as the API server tells of them.

mod model;

pub use model::{ContainerStatus, NodePod, State, Status, Terminated};
