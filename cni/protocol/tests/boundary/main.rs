// SPDX-License-Identifier: Apache-2.0
//! Properties of every input: results survive each version, nothing panics.

#![expect(clippy::unwrap_used, reason = "helpers of tests; a failure is a failed test")]

mod hostile;
mod messages;
mod results;
mod strategies;
