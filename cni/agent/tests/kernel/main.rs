// SPDX-License-Identifier: Apache-2.0
//! Repair in real network namespaces, by the binary that is shipped: whose a namespace is, what is written into it, and what proves it; and
//! whom the socket's server tells apart across pid namespaces.
//! Each case makes its namespaces itself, in a mount namespace of the test's own, with which they go.
//!
//! `cargo test -p install-cni --test kernel [PART OF A NAME]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

#[path = "../../../netfilter/tests/kernel/link.rs"]
mod link;
#[path = "../../../netfilter/tests/kernel/rights.rs"]
mod rights;

mod node;
mod peers;
mod proof;
mod stranger;
mod whose;

use std::process::ExitCode;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rights::Rights;

/// A case: sentence and function.
struct Case(&'static str, fn());

fn main() -> ExitCode {
    if peers::role() || whose::role() {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if let Some(reason) = reason() {
        println!("install-cni kernel tests: ignored, {reason}");
        return if std::env::var_os("CI").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let (mut passed, mut failed) = (0, 0);
    for Case(name, work) in [whose::CASES, proof::CASES, peers::CASES].into_iter().flatten() {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        // A thread of its own: a panic ends only that.
        let ok = std::thread::spawn(*work).join().is_ok();
        if ok {
            passed += 1
        } else {
            failed += 1
        }
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
    }
    println!("\ninstall-cni kernel tests: {passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Why nothing can be tested here; if something can, this process has a mount namespace of its own from now on.
fn reason() -> Option<String> {
    match rights::acquire() {
        Rights::Root => {}
        // The probe takes the identity of a user without privileges.
        Rights::OneUser => return Some("needs root: a user without privileges".to_owned()),
        Rights::None(reason) => return Some(reason),
    }
    let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(None::<&str>, "/", None::<&str>, private, None::<&str>))
        .err()
        .map(|errno| format!("needs a mount namespace: {errno}"))
}
