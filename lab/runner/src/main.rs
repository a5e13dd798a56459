// SPDX-License-Identifier: Apache-2.0
//! `cnilab`: parse, run, exit code. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use runner::cli::Cli;
use runner::exit::Exit;

fn main() -> ExitCode {
    match runner::start(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("cnilab: {error:#}");
            Exit::Inconclusive.into()
        }
    }
}
