// SPDX-License-Identifier: Apache-2.0
//! Events and actions of the decision.

use serde_json::Value;

use super::super::model::{Node, Pod};
use super::super::rules::Rule;
use crate::metrics::{Deed, Lead};

/// Policy for a node whose pods are not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaintPolicy {
    /// Taints it.
    Both,
    /// Leaves it: others taint nodes.
    OnlyRemove,
}

/// Which rule of which set: pods are told of rule by rule, and a set that comes late belongs to rules that hold no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleRef {
    /// Generation of the rules, from 1.
    pub set: u64,
    /// Index of the rule.
    pub rule: usize,
}

/// Result of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchOutcome {
    /// Done; the node after it.
    Done(Node),
    /// Concurrent change of the taints; the node after it.
    Conflict(Node),
    /// The node is gone.
    Gone,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaintEvent {
    /// List of nodes.
    Nodes(Vec<Node>),
    /// A node was added or modified.
    Node(Node),
    NodeGone(String),
    /// New rules; events on their pods follow.
    Rules(u64, Vec<Rule>),
    /// List of a rule's pods.
    Pods(RuleRef, Vec<Pod>),
    /// A pod of a rule was added or modified.
    Pod(RuleRef, Pod),
    /// A pod of a rule was deleted.
    PodGone(RuleRef, Pod),
    /// Leadership.
    Lead(Lead),
    /// A patch ended.
    Ended(String, PatchOutcome),
    Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaintAction {
    /// Patches the node.
    Patch {
        node: String,
        deed: Deed,
        patch: Value,
        /// Reason, for a person.
        why: String,
    },
    /// The taint stays on the node; reported once for each reason.
    Leave {
        node: String,
        /// Reason, for a person.
        why: String,
    },
}
