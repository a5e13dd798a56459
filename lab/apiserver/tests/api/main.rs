// SPDX-License-Identifier: Apache-2.0
//! The whole API from outside: through a kube client in process, and over sockets.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod access;
mod common;
mod objects;
mod policies;
mod proxies;
mod roles;
mod sockets;
mod watching;
mod webhooks;
mod workloads;
