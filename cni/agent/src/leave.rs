// SPDX-License-Identifier: Apache-2.0
//! Why the agent stops: an upgrade, a reboot or a drain keeps what is installed, an uninstall removes it. The DaemonSet knows, and is asked
//! at the start, when the own pod is being deleted, and at the end.
//!
//! | module | what |
//! |---|---|
//! | `decide` | answers to a decision, with its reason |
//! | `fits` | whether a DaemonSet still wants a pod on a node |
//! | `ask` | asks for the DaemonSet within a budget |
//! | `own` | the own pod, followed by name |
//! | `watch` | asks at the three moments, and concludes |

mod ask;
mod decide;
mod fits;
mod own;
mod watch;

pub use decide::{Answer, Decision, Observations, Reason, decide};
pub use fits::misfit;
pub use own::{OwnFacts, follow};
pub use watch::Leave;
