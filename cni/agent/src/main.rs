// SPDX-License-Identifier: Apache-2.0
//! `install-cni`: reads the command line and hands it to the library.

use std::process::ExitCode;

use agent::cli::{self, Cli};
use dlmalloc::GlobalDlmalloc;

/// The one of musl asks the kernel for memory time and again, and gives it back.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

fn main() -> ExitCode {
    abort_on_panic();
    match Cli::read(std::env::args_os()) {
        Ok(cli) => agent::run::main(cli),
        Err(error) => cli::report(&error, std::env::args_os()),
    }
}

/// Ends the whole process at a panic: a task that panics would end alone, and the agent go on without it. The kubelet starts another one.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}
