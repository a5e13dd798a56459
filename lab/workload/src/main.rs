// SPDX-License-Identifier: Apache-2.0
//! One binary for every process of the lab's pods. Called as `lab-net` by a container runtime it is the lab's base CNI
//! plugin, otherwise its first argument says what it is.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let called_as = std::env::args_os().next();
    let name = called_as.as_deref().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(workload::basenet::NAME)) {
        return workload::basenet::main();
    }
    match workload::cli::run(workload::cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("workload: {error:#}");
            ExitCode::FAILURE
        }
    }
}
