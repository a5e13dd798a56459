// SPDX-License-Identifier: Apache-2.0
//! The front before an API server: the embedded one, in process and over its socket as if it were a stranger's.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod agents;
mod common;
mod faults;
mod sockets;
mod streams;
