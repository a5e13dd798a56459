// SPDX-License-Identifier: Apache-2.0
//! One binary for every process of the lab's pods. Called as `lab-net` by a container runtime it is the lab's base CNI
//! plugin, as `multus` or `multus-shim` its stand-in for Multus, under any other name a plugin of another network. In a proxy's image its name is what an
//! injector has a container call: `proxy`. Otherwise its first argument says what it is.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use dlmalloc::GlobalDlmalloc;

/// The one of musl asks the kernel for memory time and again, and gives it back: of a plugin that runs for milliseconds, that was a sixth of the time.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

/// Its name where it is no plugin.
const OWN: &str = "workload";
/// Its name in a proxy's image.
const PROXY: &str = "proxy";

fn main() -> ExitCode {
    let called_as = std::env::args_os().next();
    let name = called_as.as_deref().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str);
    match name.unwrap_or_default() {
        workload::basenet::NAME => return workload::basenet::main(),
        name @ (workload::multus::THIN | workload::multus::SHIM) => return workload::multus::main(name),
        // A plugin of another network.
        name if name != OWN && std::env::var_os("CNI_COMMAND").is_some() => return workload::chained::main(),
        _ => {}
    }
    let own = (name == Some(PROXY)).then(|| OWN.into());
    match workload::cli::run(workload::cli::Cli::parse_from(own.into_iter().chain(std::env::args_os()))) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("workload: {error:#}");
            ExitCode::FAILURE
        }
    }
}
