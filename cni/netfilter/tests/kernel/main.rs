// SPDX-License-Identifier: Apache-2.0
//! What only a kernel can answer: each case runs in network namespaces of its own, which die with its thread.
//!
//! Without root it enters a user namespace first, before any thread; there only one user exists, so all rules name that one. Where
//! neither works, cases are ignored with the reason, and so are comparisons with tools that are missing; with `CI` set that is a failure.
//!
//! `cargo test -p netfilter --test kernel [PART OF A NAME]`
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
mod foreign;
mod ground;
mod legacy;
mod link;
mod lock;
mod native;
mod native_parity;
mod netns;
mod owner;
mod parity;
mod policy;
mod random;
mod restore;
mod rights;
mod route;
mod rules;
mod tools;
mod world;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use rights::Rights;
use world::World;

/// What a case cannot do without.
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

enum Outcome {
    Passed,
    Failed,
    Ignored(String),
}

fn main() -> ExitCode {
    if let Some(role) = child::role() {
        return role;
    }
    let rights = rights::acquire();
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let cases = [
        parity::CASES,
        native_parity::CASES,
        apply::CASES,
        foreign::CASES,
        native::CASES,
        legacy::CASES,
        backends::CASES,
        lock::CASES,
        compare::CASES,
        address::CASES,
        route::CASES,
        ground::CASES,
        owner::CASES,
        crash::CASES,
        netns::CASES,
    ];
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for case in cases.into_iter().flatten() {
        if !wanted.is_empty() && !wanted.iter().any(|part| case.0.contains(part.as_str())) {
            continue;
        }
        match run(case, &rights) {
            Outcome::Passed => {
                passed += 1;
                println!("test {} ... ok", case.0);
            }
            Outcome::Failed => {
                failed += 1;
                println!("test {} ... FAILED", case.0);
            }
            Outcome::Ignored(reason) if std::env::var_os("CI").is_some() => {
                failed += 1;
                println!("test {} ... FAILED: cannot run: {reason}", case.0);
            }
            Outcome::Ignored(reason) => {
                ignored += 1;
                println!("test {} ... ignored, {reason}", case.0);
            }
        }
    }
    let comparisons = parity::COMPARISONS.load(Ordering::Relaxed);
    println!("\nnetfilter kernel tests: {passed} passed, {failed} failed, {ignored} ignored");
    println!("netfilter kernel tests: {comparisons} comparisons with iptables");
    let comparisons = native_parity::COMPARISONS.load(Ordering::Relaxed);
    println!("netfilter kernel tests: {comparisons} comparisons with nft");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(&Case(_, needs, work): &Case, rights: &Rights) -> Outcome {
    let users = match rights {
        Rights::None(reason) => return Outcome::Ignored(reason.clone()),
        Rights::Root => world::Users::Any,
        Rights::OneUser => world::Users::One,
    };
    if matches!(needs, Needs::Tools | Needs::ToolsAndUsers)
        && let Some(missing) = tools::missing()
    {
        return Outcome::Ignored(format!("needs {missing}"));
    }
    if matches!(needs, Needs::Users | Needs::ToolsAndUsers) && users == world::Users::One {
        return Outcome::Ignored("needs root, or a range of users in a user namespace".to_owned());
    }
    let world = World { users };
    // A thread of its own: its namespace is not the test's, and a panic ends only the thread.
    match std::thread::spawn(move || work(world)).join() {
        Ok(()) => Outcome::Passed,
        Err(_) => Outcome::Failed,
    }
}
