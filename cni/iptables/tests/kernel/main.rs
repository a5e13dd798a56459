// SPDX-License-Identifier: Apache-2.0
//! Programming, validation and clean-up in real network namespaces, by the binary that is shipped. Each case has namespaces of its
//! own, which die with its thread.
//!
//! Without root it enters a user namespace first, before any thread; there only one user exists, so the proxy is that one. Where
//! neither works, cases are ignored with the reason; with `CI` set that is a failure.
//!
//! `cargo test -p istio-iptables --test kernel [PART OF A NAME]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

#[path = "../../../netfilter/tests/kernel/rights.rs"]
mod rights;

#[path = "../../../netfilter/tests/kernel/link.rs"]
mod link;
mod paths;
mod pod;
mod validation;

use std::process::ExitCode;

use netfilter::iptables::{Variant, is_installed};
use pod::Proxy;
use rights::Rights;

/// Prerequisites of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Namespace,
    /// And an unprivileged user.
    Users,
    /// And the legacy iptables tools, and the right to use them.
    Legacy,
}

/// A case: sentence, prerequisites and function.
struct Case(&'static str, Needs, fn(Proxy));

fn main() -> ExitCode {
    let rights = rights::acquire();
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for case in [validation::CASES, paths::CASES].into_iter().flatten() {
        if !wanted.is_empty() && !wanted.iter().any(|part| case.0.contains(part.as_str())) {
            continue;
        }
        let word = match run(case, &rights) {
            Ok(true) => {
                passed += 1;
                "ok".to_owned()
            }
            Ok(false) => {
                failed += 1;
                "FAILED".to_owned()
            }
            Err(reason) if std::env::var_os("CI").is_some() => {
                failed += 1;
                format!("FAILED: cannot run: {reason}")
            }
            Err(reason) => {
                ignored += 1;
                format!("ignored, {reason}")
            }
        };
        println!("test {} ... {word}", case.0);
    }
    println!("\nistio-iptables kernel tests: {passed} passed, {failed} failed, {ignored} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a case; skips it with the reason where a prerequisite is lacking.
fn run(&Case(_, needs, work): &Case, rights: &Rights) -> Result<bool, String> {
    let proxy = match (rights, needs) {
        (Rights::None(reason), _) => return Err(reason.clone()),
        (Rights::OneUser, Needs::Users) => return Err("needs root: a user without privileges".to_owned()),
        (Rights::OneUser, Needs::Legacy) => return Err("needs root: legacy tables".to_owned()),
        (Rights::Root, Needs::Legacy) if !is_installed(Variant::Legacy) => {
            return Err("needs iptables-legacy".to_owned());
        }
        (Rights::OneUser, Needs::Namespace) => Proxy { id: 0 },
        (Rights::Root, _) => Proxy { id: 1337 },
    };
    // A thread of its own: its namespace is not the test's, and a panic ends only the thread.
    Ok(std::thread::spawn(move || work(proxy)).join().is_ok())
}
