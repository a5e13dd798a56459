// SPDX-License-Identifier: Apache-2.0
//! What crosses a process boundary: the CNI environment, configuration, results and errors, and the messages between
//! plugin and agent. No I/O: bytes in, values out.
//!
//! | module | noun |
//! |---|---|
//! | [`agent`] | messages between plugin and agent |
//! | [`pod`] | what we read of a pod |

pub mod agent;
pub mod pod;
