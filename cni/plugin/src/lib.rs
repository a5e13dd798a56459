// SPDX-License-Identifier: Apache-2.0
//! The CNI plugin. A call is one straight line: the runtime's wish is read ([`call`]), a pod's facts are gathered, redirection is
//! decided (`redirect`), rules are applied (`netfilter`), the previous result is printed. Nothing is opened before it is needed.
//!
//! | module | what it does |
//! |---|---|
//! | [`world`] | everything outside of the process, as one value |
//! | [`call`] | one call from start to end; the only writer to stdout |
//! | [`context`] | the world of one call, as its command works with it |
//! | [`add`], [`del`], [`check`], [`status`] | the commands |
//! | [`diagnose`] | what a pod's namespace holds, compared with what it should |
//! | [`gather`] | the pod's facts, from the agent or the API server |
//! | [`backend`] | which back end is wanted |
//! | [`apply`] | rules into the pod's namespace |
//! | [`failure`] | what an ADD can fail on, and what the runtime is told |
//! | `remedy` | what a person can do about it |
//! | [`agent`] | the node agent's socket |
//! | [`api`], [`http`], [`kubeconfig`], [`yaml`] | the API server: when to ask again, the connection, where it is |
//! | [`kernel`] | network namespaces |
//! | [`clock`] | time and chance |
//! | [`log`], [`log_out`] | log lines; where they go when a call ends |
//! | [`panic`](mod@panic) | the last word of a plugin that has a bug |

pub mod add;
pub mod agent;
pub mod api;
pub mod apply;
pub mod backend;
pub mod call;
pub mod check;
pub mod clock;
pub mod context;
pub mod del;
pub mod diagnose;
pub mod failure;
pub mod gather;
pub mod http;
pub mod kernel;
pub mod kubeconfig;
pub mod log;
pub mod log_out;
pub mod panic;
mod remedy;
pub mod status;
#[cfg(test)]
mod testing;
pub mod world;
pub mod yaml;
