// SPDX-License-Identifier: Apache-2.0
//! What the agent asks the process that enters namespaces for it, and what that answers. Both are the same binary; neither form is kept.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use protocol::pod::{MIRROR_ANNOTATION, PodFacts};
use serde::{Deserialize, Serialize};

use super::find::{Identity, NotFound};
use super::gather::Grounds;

/// What is to be done in the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Rules are read and compared with what the pod should have.
    Look,
    /// Rules are written and proven. The process can be used for one pod only: it may have to take that pod's users.
    Repair,
}

/// Which back end is wanted, as the plugin is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendWanted {
    /// By name, or `auto`.
    pub wish: String,
    /// What was found right for this node, where it is written down.
    pub record: PathBuf,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is to be done.
    pub task: Task,
    /// Where namespaces are looked for.
    pub grounds: Grounds,
    /// Which back end is wanted.
    pub backend: BackendWanted,
    /// For which pods.
    pub pods: Vec<Asked>,
}

/// A pod that is asked about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What decides about its rules.
    pub facts: PodFacts,
    /// Its addresses, the first one first.
    pub addresses: Vec<IpAddr>,
}

impl Asked {
    /// As sandboxes name it.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let metadata = &self.facts.metadata;
        let mirror = metadata.annotations.get(MIRROR_ANNOTATION);
        Identity {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uids: [&metadata.uid].into_iter().chain(mirror).filter(|uid| !uid.is_empty()).cloned().collect(),
        }
    }
}

/// What became of the rules that a pod had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// It had none.
    Created,
    /// It had others.
    Replaced,
    /// They were right before.
    Unchanged,
}

/// How a family's redirection is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A packet was sent, and the rule that redirects counted it.
    Packet {
        /// Where it was sent.
        to: String,
        /// The port that the rule sends it to.
        port: u16,
    },
    /// The rules were read back and are right; no packet that they redirect can be sent from inside, and why.
    Rules {
        /// Why.
        why: String,
    },
}

/// What is known of one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// How.
    pub evidence: Evidence,
}

impl Proven {
    /// Whether a packet was seen to be redirected.
    #[must_use]
    pub fn is_by_packet(&self) -> bool {
        matches!(self.evidence, Evidence::Packet { .. })
    }
}

impl fmt::Display for Proven {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.evidence {
            Evidence::Packet { to, port } => {
                write!(out, "{}: a packet to {to} is redirected to port {port}", self.family)
            }
            Evidence::Rules { why } => {
                write!(out, "{}: rules read back, not proven by a packet ({why})", self.family)
            }
        }
    }
}

/// What came of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its namespace is not known.
    NotFound(NotFound),
    /// It is not to be redirected after all.
    NotEnrolled(String),
    /// Looked at: it is redirected as it should be.
    Right,
    /// Looked at: it is not, and in what.
    Wrong(Vec<String>),
    /// Rules were written and read back, and nothing contradicts them: what is known of each family that the pod has.
    Proven {
        /// What became of the rules that it had.
        written: Written,
        /// The back end.
        backend: String,
        /// What is known of each family.
        families: Vec<Proven>,
    },
    /// Rules were written, and packets do not follow them.
    Unproven {
        /// What became of the rules that it had.
        written: Written,
        /// What was seen instead.
        why: String,
    },
    /// Something did not work.
    Failed(String),
}

/// An answer: one outcome for each pod, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The outcomes.
    pub outcomes: Vec<Outcome>,
}
