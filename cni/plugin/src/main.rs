// SPDX-License-Identifier: Apache-2.0
//! `istio-cni`, the CNI plugin that a container runtime calls: builds the real world and hands it to the library.

#![no_main]

use netfilter::arena::Arena;
use netfilter::start::Arguments;
use plugin::agent::SocketAgent;
use plugin::call::run;
use plugin::clock::SystemClock;
use plugin::http::HttpApi;
use plugin::kernel::RealKernel;
use plugin::world::{Standard, World};

/// Far more than an ADD with the agent up needs, and enough for most of one that asks the API server.
const ARENA_SIZE: usize = 256 * 1024;

#[global_allocator]
static ALLOCATOR: Arena<ARENA_SIZE> = Arena::new();

netfilter::start!(serve);

fn serve(arguments: Arguments) -> u8 {
    plugin::panic::install();
    let clock = SystemClock::start();
    run(World {
        env: &|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
        args: &|| arguments.words(),
        stdin: &mut Standard(rustix::stdio::stdin()),
        stdout: &mut Standard(rustix::stdio::stdout()),
        stderr: &mut Standard(rustix::stdio::stderr()),
        clock: &clock,
        agent: &SocketAgent { clock: &clock, own_uid: || rustix::process::geteuid().as_raw() },
        api: &HttpApi,
        kernel: &RealKernel,
    })
    .code()
}
