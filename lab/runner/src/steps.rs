// SPDX-License-Identifier: Apache-2.0
//! The steps of features: each file speaks of one noun. Steps act through the traits of `cluster` and say what they expected
//! and what they saw.
//!
//! | module | speaks of |
//! |---|---|
//! | [`pod`] | pods: what they look like, how they start |
//! | [`traffic`] | who answers whom, through which hops |
//! | [`runtime`] | the node's container runtime, what it makes of its plugins' configuration, and what its kubelet makes of that |
//! | [`rules`] | the rules in a pod's namespace, ours and others' |
//! | [`agent`] | the node agent: deployed, watched, disturbed, removed |
//! | [`backend`] | how rules get into the kernel, and kernels that lack or forbid something |
//! | [`call`] | calls of the plugin: commands, versions, errors |
//! | [`chain`] | calls that the runtime makes of its chain |
//! | [`crash_sweep`] | an ADD that is killed at each of its system calls |
//! | [`exposure`] | what got past the rules that a pod wants |
//! | [`faults`] | the API server and the agent misbehaving |
//! | [`init`] | init containers that program or check rules, and the same program called by somebody |
//! | [`injection`] | pods that istiod's webhook injects |
//! | [`controllers`] | pods that a controller makes, and what becomes of them |
//! | [`configuration`] | configurations of networks, and what others do to them |
//! | [`damage`] | what else can be in a pod's namespace than what the plugin left |
//! | [`diagnosis`] | `istio-cni diagnose` |
//! | [`manifests`] | what an operator hands in, and the objects that come of it |
//! | [`multus`] | Multus, and the networks that pods name |
//! | [`ranges`] | addresses of pods in texts of features |
//! | [`networks`] | lists of other networks, and when their owners write them |
//! | [`nodes`] | the network between nodes and to the outside, and services |
//! | [`observe`] | what the node agent tells of itself: ports, status, events |
//! | [`repair`] | what the node agent did about pods that came up unredirected |
//! | [`permissions`] | what the node agent may do, and who has its token |
//! | [`pod_security`] | what a namespace allows its pods |
//! | [`policy`] | the policy routes in a pod's namespace |
//! | [`taint`] | taints of nodes, and who minds them |
//! | [`truth`] | the truth table |
//!
//! [`world`] is what they share: a scenario's state; [`account`] is what the chart's accounts were denied, [`files`] is how they reach the node's, [`events`] how they list events, [`wait`] how they wait, [`marks`] where the last action began, [`moments`] what a runtime found in a watched directory.
#![expect(clippy::needless_pass_by_value, reason = "a step's parts arrive as values that it owns")]

pub mod account;
pub mod agent;
pub mod backend;
pub mod call;
pub mod chain;
pub mod configuration;
pub mod controllers;
pub mod crash_sweep;
pub mod damage;
pub mod diagnosis;
pub mod events;
pub mod exposure;
pub mod faults;
pub mod files;
pub mod init;
pub mod injection;
pub mod manifests;
pub mod marks;
pub mod moments;
pub mod multus;
pub mod networks;
pub mod nodes;
pub mod observe;
pub mod permissions;
pub mod pod;
pub mod pod_security;
pub mod policy;
mod ranges;
pub mod readiness;
pub mod repair;
pub mod rules;
pub mod runtime;
pub mod taint;
pub mod traffic;
pub mod truth;
pub mod wait;
pub mod world;
