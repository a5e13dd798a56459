// SPDX-License-Identifier: Apache-2.0
//! Starts the parts of the agent in order, and stops them.

use std::process::ExitCode;

use crate::cli::Cli;

/// Runs the agent, or the command that was asked for.
#[must_use]
pub fn main(_cli: Cli) -> ExitCode {
    ExitCode::SUCCESS
}
