// SPDX-License-Identifier: Apache-2.0
//! Protocol of the hand: the lab's process on a node, wherever the node is. One line of JSON each way; answers come in the order in which
//! the orders end, so each names its order.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::CniAnswer;

/// First line of a hand, before any order.
pub const READY: &str = "ready hand";

/// A program to run on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Number, chosen by who asks.
    pub id: u64,
    /// Network namespace.
    pub network: Network,
    /// The program and its arguments. `workload` is the hand's own binary, whatever the node has.
    pub words: Vec<String>,
    /// Standard input.
    pub stdin: String,
    /// User and group.
    pub owner: (u32, u32),
    /// The program is killed after this time, in milliseconds.
    pub deadline_ms: u64,
}

/// Network namespace of an [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The node's.
    Node,
    /// That of the pod with this address.
    Pod(IpAddr),
}

/// Answer to an [`Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Number of the order.
    pub id: u64,
    /// The program's end, or why it was not run to its end.
    pub result: Result<CniAnswer, String>,
}
