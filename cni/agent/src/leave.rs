// SPDX-License-Identifier: Apache-2.0
//! Why the agent stops: an upgrade, a reboot or a drain keeps what is installed, an uninstall removes it. The DaemonSet knows, and is asked
//! at the start, when the own pod is being deleted, and at the end.
//!
//! | module | what |
//! |---|---|
//! | [`decide`](mod@decide) | answers to a decision, with its reason |
//! | [`fits`] | whether a DaemonSet still wants a pod on a node |

pub mod decide;
pub mod fits;

pub use decide::{Answer, Decision, Observations, Reason, decide};
