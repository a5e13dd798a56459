// SPDX-License-Identifier: Apache-2.0
//! An embedded node, and the tier `netns` made of such nodes: real network namespaces, real processes, a container runtime
//! that calls real CNI plugins. Relies on being root in pid, mount and network namespaces of its own.
//!
//! | module | noun |
//! |---|---|
//! | [`tier`] | the cluster: API, nodes, directory |
//! | [`traits`] | [`cluster`]'s traits, implemented |
//! | [`controller`] | which node runs which pod |
//! | [`node`], [`slot`] | a node; one pod on it |
//! | [`pod`], [`sandbox`], [`containers`], [`status`] | a pod's plan, network, processes, report |
//! | [`cni`] | the runtime's side of CNI |
//! | [`workload`] | a running pod as a probe |
//! | [`errand`] | programs that somebody runs beside what pods run |
//! | [`agent`] | the stand-in for the node agent |
//! | [`netns`], [`process`], [`rights`] | one namespace, one process, what it may do |
//! | [`options`], [`probes`], [`error`] | setting up, what the machine can do, what can go wrong |

pub mod agent;
pub mod cni;
pub mod containers;
pub mod controller;
pub mod errand;
pub mod error;
pub mod netns;
pub mod node;
pub mod options;
pub mod pod;
pub mod probes;
pub mod process;
pub mod rights;
pub mod sandbox;
pub mod slot;
pub mod status;
pub mod tier;
pub mod traits;
pub mod workload;

pub use error::Error;
pub use options::{Deadlines, Options};
pub use pod::Binaries;
pub use tier::NetnsCluster;
