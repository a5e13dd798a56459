// SPDX-License-Identifier: Apache-2.0
//! What the benches share: the contenders, the pods that they set up, and how a run is taken.
//!
//! | module | noun |
//! |---|---|
//! | [`pod`] | a fresh network namespace with a pod's addresses, and the pod's facts |
//! | [`peers`] | the processes that answer a plugin: an agent on its socket, an API server on loopback |
//! | [`contender`] | one process that sets up a pod, timed from spawn to exit |
//! | [`floor`] | builds the least process that can do it |
//! | [`rounds`] | interleaved samples of all contenders, and their ratios |
//! | [`burst`] | many pods at once |
//! | [`meter`] | system calls and peak memory of one run, by ptrace |

pub mod burst;
pub mod contender;
pub mod floor;
pub mod meter;
pub mod peers;
pub mod pod;
pub mod rounds;
