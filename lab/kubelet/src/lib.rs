// SPDX-License-Identifier: Apache-2.0
//! An embedded node, and the tier `netns` made of such nodes: real network namespaces, real processes, a container runtime
//! that calls real CNI plugins. Relies on being root in pid, mount and network namespaces of its own.
//!
//! | module | noun |
//! |---|---|
//! | [`tier`] | the cluster: API, nodes, directory |
//! | [`traits`], `operations` | [`cluster`]'s traits, implemented |
//! | [`control_plane`] | an embedded control plane, with or without embedded nodes |
//! | [`api_access`], `informer`, `heartbeat` | the API server that nodes belong to, theirs or one that they join; its changes; their leases |
//! | [`controller`] | pods of a node are started and stopped there |
//! | [`scheduler`], `scheduling`, [`fit`] | which node runs which pod |
//! | [`controllers`] | DaemonSets, Deployments, ReplicaSets, StatefulSets, Jobs |
//! | [`network`], [`runtime_status`], [`restart`] | whether the node's network is ready, and what follows; runtime and kubelet start anew |
//! | [`node`], [`slot`] | a node; one pod on it |
//! | [`pod`], [`life`], [`ending`] | what a pod asks for; how it is kept running; how it ends |
//! | [`sandbox`], [`containers`], [`status`] | its network, processes, report |
//! | [`images`] | which images a node has |
//! | [`furnish`], [`env`], [`volumes`], [`account`], [`probe`], [`unplayed`] | what its containers find, and how one is found ready |
//! | [`cni`] | the runtime's side of CNI |
//! | [`workload`] | a running pod as a probe |
//! | [`output`], [`logs`], [`exec`] | what containers print; `kubectl logs` and `kubectl exec` |
//! | [`reach`] | connections of the API server into the cluster |
//! | [`errand`] | programs that somebody runs beside a container's process |
//! | [`hand`], [`disk`] | the lab's process on the node, for steps; a disk beneath a directory |
//! | [`memory`] | what the node's kubelet takes its memory to be, and eviction |
//! | [`agent`] | the stand-in for the node agent |
//! | [`wire`], [`services`] | the network between nodes and to the outside; addresses of services |
//! | [`netns`], [`pids`], [`rootfs`] | the namespaces of pods, nodes and containers |
//! | [`view`] | what the programs of a node see |
//! | [`process`], [`rights`] | one process, what it may do |
//! | [`options`], [`preflight`], [`error`] | setting up, what the machine can do, what can go wrong |

pub mod account;
pub mod agent;
pub mod api_access;
mod applied;
pub mod cni;
pub mod containers;
mod contention;
pub mod control_plane;
pub mod controller;
pub mod controllers;
pub mod disk;
pub mod ending;
pub mod env;
pub mod errand;
pub mod error;
pub mod exec;
pub mod fit;
pub mod furnish;
pub mod hand;
mod heartbeat;
pub mod images;
mod informer;
pub mod life;
pub mod logs;
pub mod memory;
pub mod netns;
pub mod network;
pub mod node;
mod operations;
pub mod options;
pub mod output;
mod pace;
pub mod pids;
pub mod pod;
pub mod preflight;
pub mod probe;
pub mod process;
pub mod reach;
pub mod restart;
pub mod rights;
pub mod rootfs;
pub mod runtime_status;
pub mod sandbox;
pub mod scheduler;
mod scheduling;
pub mod services;
pub mod slot;
pub mod starting;
mod status;
pub mod tier;
pub mod traits;
pub mod unplayed;
pub mod view;
pub mod volumes;
pub mod wire;
pub mod workload;

/// Name of the tier.
pub const TIER: &str = "netns";

pub use api_access::ApiAccess;
pub use control_plane::ControlPlane;
pub use error::Error;
pub use images::Images;
pub use options::{ClusterOptions, Deadlines};
pub use pod::Binaries;
pub use tier::NetnsCluster;
