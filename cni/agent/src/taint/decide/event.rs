// SPDX-License-Identifier: Apache-2.0
//! What is told to the decision, and what it answers.

use serde_json::Value;

use super::super::lease::Lead;
use super::super::model::{Node, Pod};
use super::super::rules::Rule;
use super::super::taints::Deed;

/// What becomes of a node whose pods are not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It gets the taint.
    Both,
    /// Nothing: others put the taint on nodes.
    OnlyRemove,
}

/// Which rule of which set: pods are told of rule by rule, and a set that comes late belongs to rules that hold no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The set, counted from 1.
    pub set: u64,
    /// The rule's place in it.
    pub rule: usize,
}

/// How a deed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; this is the node now.
    Done(Node),
    /// Somebody else changed the taints meanwhile; this is the node now.
    Conflict(Node),
    /// There is no such node any more.
    Gone,
    /// It failed.
    Failed,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// These are all nodes.
    Nodes(Vec<Node>),
    /// A node is new, or has changed.
    Node(Node),
    /// A node is gone.
    NodeGone(String),
    /// These rules hold from now on; their pods are told of from now on.
    Rules(u64, Vec<Rule>),
    /// These are all pods of a rule.
    Pods(Source, Vec<Pod>),
    /// A pod of a rule is new, or has changed.
    Pod(Source, Pod),
    /// A pod of a rule is gone.
    PodGone(Source, Pod),
    /// Whether we lead.
    Lead(Lead),
    /// A deed ended.
    Ended(String, Outcome),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The node is patched.
    Patch {
        /// Its name.
        node: String,
        /// What is done.
        deed: Deed,
        /// The JSON patch.
        patch: Value,
        /// Why, for a person.
        why: String,
    },
    /// The taint stays on the node; told once for each reason.
    Leave {
        /// Its name.
        node: String,
        /// Why, for a person.
        why: String,
    },
}
