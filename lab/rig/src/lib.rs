// SPDX-License-Identifier: Apache-2.0
//! Shared by tests that bring their own `main`: it enters namespaces while the process has one thread, and then runs them as libtest
//! would, with the same options, for `cargo test` and `cargo nextest run`.
//!
//! | module | |
//! |---|---|
//! | [`link`] | links and addresses of the calling thread's network namespace |
//! | [`mounts`] | private mounts |
//! | [`netns`] | network namespaces on threads of their own |
//! | [`pipe`] | pipes that nobody reads |
//! | [`process`] | the test's executable in another role, or for one test alone |
//! | [`rights`] | what this process may do, if need be in a user namespace |

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

pub mod link;
pub mod mounts;
pub mod netns;
pub mod pipe;
pub mod process;
pub mod rights;

use std::env;
use std::panic::resume_unwind;
use std::process::{Command, ExitCode};
use std::thread;

use libtest_mimic::{Arguments, Trial};

/// A cargo that is not told of the package under test: build scripts (ring's) watch that, so whatever depends on them would be built anew, and
/// once more in the next build.
#[must_use]
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&key);
        }
    }
    cargo
}

/// A test on a thread of its own: what it unshares or enters is not the next one's.
///
/// With an unmet prerequisite it is ignored, and the reason precedes its name; with `CI` set it fails.
pub fn test(name: &str, unmet: Option<String>, work: impl FnOnce() + Send + 'static) -> Trial {
    let Some(unmet) = unmet else {
        let thread = thread::Builder::new().name(name.to_owned());
        return Trial::test(name, move || {
            thread.spawn(work)?.join().unwrap_or_else(|panic| resume_unwind(panic));
            Ok(())
        });
    };
    let fails = Trial::test(name, {
        let unmet = unmet.clone();
        move || Err(format!("cannot run: {unmet}").into())
    });
    // Not `Completion::Ignored`: nextest would take that for a success.
    if std::env::var_os("CI").is_some() { fails } else { fails.with_kind(unmet).with_ignored_flag(true) }
}

/// Runs the tests that the command line selects.
pub fn run(tests: impl IntoIterator<Item = Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), tests.into_iter().collect()).exit_code()
}
