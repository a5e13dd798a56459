// SPDX-License-Identifier: Apache-2.0
//! Shared parts of the benches: contenders, the pods that they set up, and the sampling.
//!
//! | module | noun |
//! |---|---|
//! | [`pod`] | a fresh network namespace with a pod's addresses, and the pod's facts |
//! | [`rules`] | rulesets of a given size |
//! | [`tls`] | the API server's certificates, and the least client |
//! | [`peers`] | servers for a plugin: an agent on its socket, an API server on loopback |
//! | [`contender`] | a way to set up a pod, timed; those that are processes |
//! | [`in_process`] | those in process, the floor among them |
//! | [`floor`] | builds the least process that can do it |
//! | [`holder`] | a process that holds a lock |
//! | [`rounds`] | interleaved samples of all contenders, and their ratios |
//! | [`bounds`] | ratios that a change must not lose |
//! | [`burst`] | many pods at once |
//! | [`meter`] | system calls and peak memory of one run, by ptrace |
//! | [`report`] | tables of figures, for people and for programs |

pub mod bounds;
pub mod burst;
pub mod contender;
pub mod floor;
pub mod holder;
pub mod in_process;
pub mod meter;
pub mod peers;
pub mod pod;
pub mod report;
pub mod rounds;
pub mod rules;
pub mod tls;
