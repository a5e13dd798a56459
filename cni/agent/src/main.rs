// SPDX-License-Identifier: Apache-2.0
//! `install-cni`: reads the command line and hands it to the library.

use std::process::ExitCode;

use agent::cli::{self, Cli};

fn main() -> ExitCode {
    match Cli::read(std::env::args_os()) {
        Ok(cli) => agent::run::main(cli),
        Err(error) => cli::told(&error, std::env::args_os()),
    }
}
