// SPDX-License-Identifier: Apache-2.0
//! Whole runs without a kernel: a command line, an environment, files and addresses in; what is printed, what the kernel is asked
//! for and the exit code out.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

mod corpus;
mod explain;
mod precedence;
mod stage;
mod surroundings;
