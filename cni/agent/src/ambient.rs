// SPDX-License-Identifier: Apache-2.0
//! Pods of ambient mode on this node. Nothing captures them here: this agent serves sidecars only, so their traffic passes ztunnel by. Each has
//! an event, and the gauge `millrace_ambient_pods` counts them.
//!
//! | module | what |
//! |---|---|
//! | `captured` | pods that upstream's agent would capture |
//! | `task` | follows pods, settings and namespaces, and reports |
//!
//! Labels of namespaces need the right to watch namespaces, which the agent has where `ambient.enabled` is set. Without it, pods' own labels
//! decide.

mod captured;
mod task;

pub use task::{AmbientContext, run};
