// SPDX-License-Identifier: Apache-2.0
//! Programming, validation and clean-up in real network namespaces, by the binary that is shipped. Each case has namespaces of its
//! own, which die with its thread.
//!
//! Without root it enters a user namespace first, before any thread; there only one user exists, so the proxy is that one. Where
//! neither works, cases are ignored with the reason; with `CI` set that is a failure.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod paths;
mod pod;
mod validation;

use std::process::ExitCode;

use netfilter::iptables::{Variant, is_installed};
use nix::sched::CloneFlags;
use pod::Proxy;
use rig::rights::{self, Rights};

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
    let rights = rights::acquire(CloneFlags::CLONE_NEWNET);
    let proxy = Proxy { id: if rights == Rights::Root { 1337 } else { 0 } };
    let unmet = |needs| match needs {
        Needs::Namespace => rights.unmet(),
        Needs::Users => rights.unmet_users(),
        Needs::Legacy => {
            let tools = || (!is_installed(Variant::Legacy)).then(|| "needs iptables-legacy".to_owned());
            rights.unmet_users().or_else(tools)
        }
    };
    let cases = [validation::CASES, paths::CASES].into_iter().flatten();
    rig::run(cases.map(|&Case(name, needs, work)| rig::test(name, unmet(needs), move || work(proxy))))
}
