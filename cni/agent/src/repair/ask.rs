// SPDX-License-Identifier: Apache-2.0
//! Protocol between the agent and its child process in a namespace. Both are the same binary; neither form is kept.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use netfilter::Wish;
use redirect::Redirect;
use redirect::sandbox::Sandboxed;
use serde::{Deserialize, Serialize};

use super::find::{Identity, NotFound};
use super::gather::Grounds;

/// Task in a pod's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Compares rules with the desired ones.
    Look,
    /// Compares rules with the desired ones, and proves them by a packet. For one pod only, as [`Task::Repair`].
    Verify,
    /// Rules are written and proven. The process can be used for one pod only: it may have to take that pod's users.
    Repair,
}

/// Requested back end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendWanted {
    #[serde(with = "by_name")]
    pub wish: Wish,
    /// File with the node's recorded back end.
    pub record: PathBuf,
}

/// A requested back end by its name: the crate that has it knows no serde.
mod by_name {
    use netfilter::Wish;
    use serde::de::{Deserialize as _, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(wish: &Wish, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(wish)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Wish, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRequest {
    pub task: Task,
    /// Places to search for namespaces.
    pub grounds: Grounds,
    pub backend: BackendWanted,
    pub pods: Vec<TargetPod>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetPod {
    pub identity: Identity,
    /// Addresses, the primary first.
    pub addresses: Vec<IpAddr>,
    /// Its redirection, as the agent decided it: the child decides nothing of a pod.
    pub redirect: Redirect,
}

/// Effect on the pod's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// There were none.
    Created,
    /// There were others.
    Replaced,
    /// They were correct.
    Unchanged,
}

/// Evidence of a family's redirection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A packet was sent, and the redirecting rule counted it.
    Packet {
        /// Its destination.
        to: String,
        /// Target port of the rule.
        port: u16,
    },
    /// The rules were read back and are right; no packet that they redirect can be sent from inside, and why.
    Rules { why: String },
}

/// Result for one family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// `IPv4` or `IPv6`.
    pub family: String,
    pub evidence: Evidence,
}

impl Proven {
    /// True if a packet was redirected.
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

/// Connections that were open before rules were written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenConnections {
    /// Some bypass the proxy, or may.
    pub bypass: bool,
    /// What became of them; empty if there were none.
    pub text: String,
}

/// Result for one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PodOutcome {
    /// Its namespace was not found.
    NotFound(NotFound),
    /// It runs in a guest: no rule was read or written, as its packets meet none.
    Sandboxed(Sandboxed),
    /// Redirected as it should be.
    Right,
    /// A family's inbound or outbound traffic is not redirected by rules of ours: the differences from the desired rules.
    Unredirected(Vec<String>),
    /// Traffic is redirected by rules that differ from the desired ones: the differences.
    Wrong(Vec<String>),
    /// The desired rules are there, and rules of others take packets before them.
    Overtaken(Vec<String>),
    /// Rules were written and read back, and nothing contradicts them: what is known of each family that the pod has.
    Proven {
        written: Written,
        backend: String,
        families: Vec<Proven>,
        /// Connections that were open before the rules.
        open: OpenConnections,
    },
    /// Rules were written, and packets do not follow them.
    Unproven {
        written: Written,
        /// Observed instead.
        why: String,
    },
    Failed(String),
}

/// One outcome for each pod, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildReply {
    pub outcomes: Vec<PodOutcome>,
}
