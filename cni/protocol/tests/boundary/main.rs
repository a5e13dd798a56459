// SPDX-License-Identifier: Apache-2.0
//! Properties of every input: results survive each version, upstream's answers are ours, nothing panics.

#![expect(clippy::unwrap_used, reason = "helpers of tests; a failure is a failed test")]

mod call;
mod hostile;
mod messages;
mod replay;
mod results;
mod strategies;
