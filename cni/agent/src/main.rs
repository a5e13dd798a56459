// SPDX-License-Identifier: Apache-2.0
//! `install-cni`: reads the command line and hands it to the library.

use std::process::ExitCode;

use agent::cli::Cli;
use clap::Parser as _;

fn main() -> ExitCode {
    agent::run::main(Cli::parse())
}
