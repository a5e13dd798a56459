// SPDX-License-Identifier: Apache-2.0
//! The tier `kubeconfig`: a cluster that somebody else runs, reached through its API and through pods alone. What the lab makes there
//! is in namespaces of its own, which have a label, and goes with them.
//!
//! | module | what |
//! |---|---|
//! | [`session`] | a run's connection: namespaces, nodes, what the run may do |
//! | `hands` | the hand on each node, by a DaemonSet |
//! | `cluster` | one scenario's view: its namespaces and objects; `end`, what becomes of them |
//! | `view` | its names and objects, as they are in the cluster |
//! | `node` | a node, and how pods start there |
//! | `cached` | a runtime's call of a plugin, by its cache: pure |
//! | `cordon` | nodes that a scenario is not about |
//! | `baseline` | state of a run from scenario to scenario |
//! | `before` | what a scenario may change of a node, and what is to be put back: pure |
//! | `restore` | puts it back |
//! | `rights` | what a run may do in the cluster |
//! | `objects` | objects of any kind, applied and removed |
//! | `options` | options of a session |
//! | `logs` | what containers have printed |
//! | `look` | what each node can do, as its hand sees it |
//! | `start` | result of a pod's start, from what the API says of it: pure |
//! | `exec` | programs in containers |
//! | `feed` | cluster-wide watches |
//! | `watch` | waiting for an object, or a line |
//! | `workload` | a running pod, through the hand |

mod baseline;
mod before;
mod cached;
mod closed;
mod cluster;
mod cordon;
pub mod error;
mod exec;
mod feed;
mod hands;
mod identity;
mod logs;
mod look;
mod node;
mod objects;
mod options;
mod restore;
mod rights;
pub mod session;
mod start;
mod view;
mod watch;
mod workload;

pub use self::cluster::RemoteCluster;
pub use self::error::{Error, TIER};
pub use self::feed::Feed;
pub use self::look::Seen;
pub use self::options::{Access, SessionOptions, Whole};
pub use self::session::{LABEL, Owned, Session, clean};
