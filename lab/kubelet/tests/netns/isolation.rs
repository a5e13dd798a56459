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

/// Tells the inner process which rights it has, and that it is the inner one.
const INSIDE: &str = "KUBELET_TEST_RIGHTS";
/// Path of the workload binary; built if this is not set.
const WORKLOAD: &str = "KUBELET_TEST_WORKLOAD";

/// Privileges of the inner process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All, under any user.
    Root,
    /// All, but there is only one user.
    OneUser,
    /// None, for this reason.
    None(String),
}

/// `Err` in the outer process, once the inner one has ended; in the inner one, what it may do.
pub(crate) fn enter() -> Result<Rights, ExitCode> {
    match std::env::var(INSIDE).as_deref() {
        Ok("root") => Ok(furnish(Rights::Root)),
        Ok(_) => Ok(furnish(Rights::OneUser)),
        Err(_) => {
            let workload = std::env::var_os(WORKLOAD).map_or_else(build_workload, PathBuf::from);
            match separate() {
                Rights::None(reason) => Ok(Rights::None(reason)),
                rights => Err(run_inside(&rights, &workload)),
            }
        }
    }
}

fn run_inside(rights: &Rights, workload: &Path) -> ExitCode {
    let rights = if *rights == Rights::Root { "root" } else { "one user" };
    let mut inner = Command::new(std::env::current_exe().unwrap());
    let inner = inner.args(std::env::args_os().skip(1)).env(INSIDE, rights).env(WORKLOAD, workload);
    let status = inner.status().unwrap();
    status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Path of the workload binary.
pub(crate) fn workload() -> PathBuf {
    std::env::var_os(WORKLOAD).unwrap().into()
}

/// Some unprivileged user.
pub(crate) fn some_user() -> u32 {
    if std::env::var(INSIDE).as_deref() == Ok("root") { 1000 } else { 0 }
}

fn build_workload() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    // TARGET-DIR/TRIPLE/PROFILE/deps/netns-…
    let profile = own.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    // As `cargo lab run` does, so that it is built once.
    cargo.args(["build", "--quiet", "--locked", "--package", "cnilab", "--package", "workload"]);
    cargo.args(["--bin", "workload", "--target-dir"]);
    cargo.arg(profile.ancestors().nth(2).unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success(),
        "workload does not build"
    );
    profile.join("workload")
}

/// Unshares namespaces for this process' children.
fn separate() -> Rights {
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    let (uid, gid) = (getuid(), getgid());
    if uid.is_root() {
        return unshare(own)
            .map_or_else(|errno| Rights::None(format!("needs namespaces: {errno}")), |()| Rights::Root);
    }
    if let Err(errno) = unshare(own | CloneFlags::CLONE_NEWUSER) {
        return Rights::None(format!("needs root or user namespaces: {errno}"));
    }
    fs::write("/proc/self/setgroups", "deny").unwrap();
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).unwrap();
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).unwrap();
    Rights::OneUser
}

fn furnish(rights: Rights) -> Rights {
    set_pdeathsig(Signal::SIGKILL).unwrap();
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).unwrap();
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    assert!(Path::new("/proc/1").exists());
    rights
}
