// SPDX-License-Identifier: Apache-2.0
//! Redirection from the command line: init container, validation, clean-up, and a tool that explains.
//!
//! | module | what it does |
//! |---|---|
//! | [`run`](mod@run) | one run from start to end |
//! | [`world`] | everything outside of the process, as one value |
//! | [`flag`], [`given`], [`go`] | the flags; what the command line and the environment say, in Go's notations |
//! | [`settings`] | what that means |
//! | [`surroundings`] | what the namespace, the environment and files add |
//! | [`configuration`] | the whole, for the log |
//! | [`validation`] | the proof that traffic is redirected |
//! | [`explain`] | why a pod gets which rules, and what they do with a packet |
//! | [`failure`], [`exit`] | errors of a run and its exit codes |
//! | [`log`] | log lines |

pub mod configuration;
pub mod exit;
pub mod explain;
pub mod failure;
pub mod flag;
pub mod given;
pub mod go;
pub mod log;
pub mod run;
pub mod settings;
pub mod surroundings;
pub mod validation;
pub mod world;
