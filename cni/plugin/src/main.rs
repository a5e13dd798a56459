// SPDX-License-Identifier: Apache-2.0
//! `istio-cni`, the CNI plugin that a container runtime calls: builds the real world and hands it to the library.

use std::process::ExitCode;

use netfilter::arena::Arena;
use plugin::agent::SocketAgent;
use plugin::call::run;
use plugin::clock::SystemClock;
use plugin::http::HttpApi;
use plugin::kernel::RealKernel;
use plugin::world::{Standard, Stderr, World};

/// More than an ADD needs that asks the API server. What is not used costs nothing.
const ARENA_SIZE: usize = 1024 * 1024;

#[global_allocator]
static ALLOCATOR: Arena<ARENA_SIZE> = Arena::new();

fn main() -> ExitCode {
    plugin::panic::install();
    let clock = SystemClock::start();
    let exit = run(World {
        env: &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        args: &|| std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
        stdin: &mut Standard(rustix::stdio::stdin()),
        stdout: &mut Standard(rustix::stdio::stdout()),
        stderr: &mut Stderr::new(&clock),
        clock: &clock,
        agent: &SocketAgent { clock: &clock, own_uid: || rustix::process::geteuid().as_raw() },
        api: &HttpApi,
        kernel: &RealKernel,
    });
    ExitCode::from(exit.code())
}
