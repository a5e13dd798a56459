// SPDX-License-Identifier: Apache-2.0
//! Formats that cross a process boundary: the CNI environment, configuration, results and errors, and the messages between plugin and
//! agent. No I/O: bytes in, values out.
//!
//! | module | noun |
//! |---|---|
//! | [`mod@env`] | the call: command and container, from environment variables |
//! | [`args`] | the pod, from `CNI_ARGS` |
//! | [`netconf`] | the configuration on stdin |
//! | [`result`] | results, of every version |
//! | [`error`] | errors and their codes |
//! | [`cri`] | what a container runtime says that it has loaded |
//! | [`directories`] | where runtimes look for configurations and plugins |
//! | [`log`] | levels of log lines |
//! | [`version`] | the versions that we speak |
//! | [`agent`] | messages between plugin and agent |
//! | [`pod`] | the subset of a pod that is read |

#![warn(missing_docs)]

pub mod agent;
pub mod args;
pub mod cri;
pub mod directories;
pub mod env;
pub mod error;
mod json;
pub mod log;
mod name;
pub mod netconf;
pub mod pod;
mod reply;
pub mod result;
pub mod text;
pub mod version;

pub use json::JsonError;
