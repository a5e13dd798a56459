// SPDX-License-Identifier: Apache-2.0
//! Why the agent stops: an upgrade, a reboot or a drain keeps what is installed, an uninstall removes it. The DaemonSet knows: it is watched, and
//! asked for at the start, when the agent's pod is being deleted, and at the end.
//!
//! | module | what |
//! |---|---|
//! | `decide` | answers to a decision, with its reason |
//! | `fits` | whether a DaemonSet still wants a pod on a node |
//! | `ask` | asks for the DaemonSet, its namespace and the node |
//! | `daemonset` | the DaemonSet, followed by name |
//! | `own` | the own pod, as the node's pods tell of it |
//! | `watch` | asks at the three moments, and concludes |

mod ask;
mod daemonset;
mod decide;
mod fits;
mod own;
mod watch;

pub use decide::{DaemonSetAnswer, Decision, LeaveReason, Observations, Watched, decide};
pub use fits::misfit;
pub use own::{OwnFacts, follow};
pub use watch::Leave;
