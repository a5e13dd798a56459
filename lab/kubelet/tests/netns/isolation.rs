// SPDX-License-Identifier: Apache-2.0
//! Namespaces of the test's own, entered before any thread: everything inside dies with the first process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getgid, getuid};

/// Tells the inner process where the workload binary is, and that it is the inner one.
const INSIDE: &str = "KUBELET_TEST_WORKLOAD";

/// `Some` in the outer process, once the inner one has ended; `None` in the inner one.
pub(crate) fn enter() -> Option<ExitCode> {
    if std::env::var_os(INSIDE).is_some() {
        set_pdeathsig(Signal::SIGKILL).unwrap();
        furnish();
        return None;
    }
    let workload = build_workload();
    separate();
    let mut inner = Command::new(std::env::current_exe().unwrap());
    let status = inner.args(std::env::args_os().skip(1)).env(INSIDE, workload).status().unwrap();
    Some(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1))))
}

/// The workload binary.
pub(crate) fn workload() -> PathBuf {
    std::env::var_os(INSIDE).unwrap().into()
}

fn build_workload() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "workload", "--target-dir"]).arg(profile.parent().unwrap());
    assert!(
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success(),
        "workload does not build"
    );
    profile.join("workload")
}

fn separate() {
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    let (uid, gid) = (getuid(), getgid());
    if uid.is_root() {
        unshare(own).expect("root can make namespaces");
        return;
    }
    unshare(own | CloneFlags::CLONE_NEWUSER).expect("needs root or user namespaces");
    fs::write("/proc/self/setgroups", "deny").unwrap();
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).unwrap();
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).unwrap();
}

fn furnish() {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).unwrap();
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    assert!(Path::new("/proc/1").exists());
}
