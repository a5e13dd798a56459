// SPDX-License-Identifier: Apache-2.0
//! Repair in real network namespaces, by the binary that is shipped: whose a namespace is, what is written into it, and what proves it; and
//! whom the socket's server tells apart across pid namespaces.
//! Each case is a process of its own: whoever looks through `/proc` there finds no namespace of another.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

mod node;
mod past;
mod peers;
mod proof;
mod stranger;
mod stuck;
mod whose;

use std::process::ExitCode;

use nix::sched::CloneFlags;
use rig::rights;

/// A case: sentence and function.
struct Case(&'static str, fn());

fn main() -> ExitCode {
    if let Some(role) = rig::process::role() {
        match role.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["serve", path] => peers::serve(path.as_ref()),
            ["ask", path] => println!("{}", peers::ask(path.as_ref())),
            ["linger"] => whose::linger(),
            _ => panic!("no such role: {role:?}"),
        }
        return ExitCode::SUCCESS;
    }
    let mut cases =
        [whose::CASES, proof::CASES, past::CASES, peers::CASES, stuck::CASES].into_iter().flatten();
    if let Some((name, _)) = rig::process::own_test() {
        let Case(_, work) = cases.find(|case| case.0 == name).unwrap();
        work();
        return ExitCode::SUCCESS;
    }
    // The probe takes the identity of a user without privileges.
    let unmet = rights::acquire(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unmet_users();
    rig::run(cases.map(|&Case(name, _)| rig::process::test(name, unmet.clone())))
}
