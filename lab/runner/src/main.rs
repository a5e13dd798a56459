// SPDX-License-Identifier: Apache-2.0
//! `cnilab`: parse, run, exit code. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use mimalloc::MiMalloc;
use nix::sys::stat::{Mode, umask};
use runner::cli::Cli;
use runner::exit::{Exit, Usage};

/// Objects are freed by other threads than made them: of the time in this process, a quarter went to the allocator of glibc (`repair`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // Users of pods execute and read what is made here, whatever the caller's files are like.
    umask(Mode::from_bits_truncate(0o022));
    match runner::start(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            runner::board::complain(format!("{error:#}"));
            let exit = if error.is::<Usage>() { Exit::Usage } else { Exit::Inconclusive };
            exit.into()
        }
    }
}
