// SPDX-License-Identifier: Apache-2.0
//! The test's executable as another process, for what threads cannot do: enter a user namespace, change root, be alone in `/proc`, be
//! killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::mounts;

/// Precedes a role and its arguments on the command line.
const ROLE: &str = "--role";
/// Precedes a test's name and its directory.
const TEST: &str = "--in-process";

fn after(marker: &str) -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == marker).then(|| arguments.collect())
}

/// This executable. It is found under any root that has a `/proc`.
fn own(arguments: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
    command
}

/// This executable in a role.
#[must_use]
pub fn command(role: &[&str]) -> Command {
    own(&[&[ROLE], role].concat())
}

/// Role of this process and its arguments, if it is not to run tests.
#[must_use]
pub fn role() -> Option<Vec<String>> {
    after(ROLE)
}

/// A test in a process of its own, the first of a pid namespace, with mounts and a network that nobody else sees and that go with it.
/// [`own_test`] says there which one it is.
pub fn test(name: &'static str, unmet: Option<String>) -> Trial {
    crate::test(name, unmet, move || {
        let dir = tempfile::tempdir().unwrap();
        unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
        mounts::make_private();
        let mut own = own(&[TEST, name, dir.path().to_str().unwrap()]);
        let output = own.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// Name and directory of the [`test`] that this process is. It sees itself in `/proc` and ends with its parent.
#[must_use]
pub fn own_test() -> Option<(String, PathBuf)> {
    let [name, dir] = after(TEST)?.try_into().unwrap();
    set_pdeathsig(Signal::SIGKILL).unwrap();
    mounts::proc();
    Some((name, dir.into()))
}
