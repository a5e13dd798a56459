// SPDX-License-Identifier: Apache-2.0
//! Tests against the kernel: each case runs in network namespaces of its own, which die with its thread.
//!
//! Without root it enters a user namespace first, before any thread; there only one user exists, so all rules name that one. Where
//! neither works, cases are ignored with the reason, and so are comparisons with tools that are missing; with `CI` set that is a failure.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

mod address;
mod apply;
mod backends;
mod child;
mod commands;
mod compare;
mod crash;
mod flows;
mod foreign;
mod ground;
mod legacy;
mod lock;
mod many;
mod native;
mod native_parity;
mod netns;
mod owner;
mod parity;
mod policy;
mod random;
mod readers;
mod restore;
mod route;
mod rules;
mod tools;
mod world;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use nix::sched::CloneFlags;
use rig::rights::{self, Rights};
use world::{Users, World};

/// Prerequisites of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A network namespace.
    Namespace,
    /// Also users and groups other than one.
    Users,
    /// Also the iptables and nft tools.
    Tools,
    /// Both.
    ToolsAndUsers,
}

/// A case: a sentence, what it needs, what it does.
struct Case(&'static str, Needs, fn(World));

fn main() -> ExitCode {
    if let Some(role) = rig::process::role() {
        return child::play(&role);
    }
    let rights = rights::acquire(CloneFlags::CLONE_NEWNET);
    let world = World { users: if rights == Rights::Root { Users::Any } else { Users::One } };
    let tools = tools::missing().map(|tool| format!("needs {tool}"));
    let unmet = |needs| match needs {
        Needs::Namespace => rights.unmet(),
        Needs::Users => rights.unmet_users(),
        Needs::Tools => rights.unmet().or_else(|| tools.clone()),
        Needs::ToolsAndUsers => rights.unmet_users().or_else(|| tools.clone()),
    };
    let cases = [
        parity::CASES,
        native_parity::CASES,
        apply::CASES,
        flows::CASES,
        foreign::CASES,
        native::CASES,
        legacy::CASES,
        backends::CASES,
        lock::CASES,
        many::CASES,
        compare::CASES,
        readers::CASES,
        address::CASES,
        route::CASES,
        ground::CASES,
        owner::CASES,
        crash::CASES,
        netns::CASES,
    ];
    let test = |&Case(name, needs, work): &Case| rig::test(name, unmet(needs), move || work(world));
    let code = rig::run(cases.into_iter().flatten().map(test));
    for (comparisons, tool) in [(&parity::COMPARISONS, "iptables"), (&native_parity::COMPARISONS, "nft")] {
        match comparisons.load(Ordering::Relaxed) {
            0 => {}
            count => println!("netfilter kernel tests: {count} comparisons with {tool}"),
        }
    }
    code
}
