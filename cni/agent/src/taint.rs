// SPDX-License-Identifier: Apache-2.0
//! Nodes that carry a taint until the plugin is ready there. One small controller, `install-cni taint`, with two modes, and a variant without
//! anything central: each agent minds the taint of its own node.
//!
//! | mode | taint | does |
//! |---|---|---|
//! | `readiness` | `NodeReadiness:NoSchedule` | adds it while any of the configured pods is missing on a node, removes it when all are ready |
//! | `untaint` | `cni.istio.io/not-ready`, any effect | only removes it, once the node's agent is ready |
//! | node (in the agent) | `cni.istio.io/not-ready` | removes it once the installation is right, restores it when that is lost or uninstalled |
//!
//! # What each mode may do
//! Nothing here can be narrowed to one node by RBAC, as nobody knows the names of nodes beforehand: for the controller of the agent's own node an admission
//! policy does it.
//!
//! | mode | verbs | resource | where | names |
//! |---|---|---|---|---|
//! | readiness, untaint | get, list, watch, patch | nodes | cluster | any |
//! | readiness | list, watch | pods | each namespace that its configuration names; the cluster if an entry has none | any |
//! | readiness | list, watch | configmaps | `--configmap-namespace` | `--configmap-name` |
//! | untaint | list, watch | pods | `--cni-namespace` | any |
//! | readiness, untaint | get, update | leases.coordination.k8s.io | `--lease-namespace` | `--lease-name` |
//! | readiness, untaint | create | leases.coordination.k8s.io | `--lease-namespace` | any, as it has no name before |
//! | all | create, patch | events | `default`, where events of nodes are kept | any |
//! | node | get, list, watch, patch | nodes | cluster | its own, by admission |
//!
//! Only `/spec/taints` of a node is ever patched.
//!
//! # Modules
//! | module | what |
//! |---|---|
//! | [`model`], [`taints`] | nodes and pods; lists of taints and their patches |
//! | [`life`] | freshness of a pod's `Ready` condition |
//! | [`rules`] | required pods of a node |
//! | [`decide`] | taint decisions, with backoff |
//! | [`lease`], `elect` | leader election: decision; requests |
//! | [`options`], `flags`, `run` | the command line; the process |
//! | `follow`, `controller`, `actions` | watches; the controller; patches |
//! | `own`, `newest` | the controller of the agent's own node; the newest node that it knows |

mod actions;
mod controller;
pub mod decide;
mod elect;
mod flags;
mod follow;
pub mod lease;
pub mod life;
pub mod model;
mod newest;
pub mod options;
mod own;
pub mod rules;
mod run;
pub mod taints;

pub use flags::TaintFlags;
pub use options::TaintMode;
pub use own::OwnTaint;
pub use run::main;
