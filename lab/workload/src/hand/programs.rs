// SPDX-License-Identifier: Apache-2.0
//! Programs that the hand runs to their end.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::CniAnswer;
use cluster::hand::Run;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, chroot};
use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::place;

/// This very program, whatever the file system around it.
const SELF: &str = "/proc/self/exe";

/// Runs a program to its end.
pub(crate) async fn run(run: Run) -> io::Result<CniAnswer> {
    let started = Instant::now();
    let deadline = Duration::from_millis(run.deadline_ms);
    let (program, input) = (run.words.join(" "), run.stdin.clone());
    // A process has what the thread has that starts it.
    let mut child = place::inside(run.network.clone(), move || spawn(&run)).await??;
    let stdin = child.stdin.take();
    let exchange = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that gives up early says why on its standard error.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        tokio::join!(write, child.wait_with_output()).1
    };
    let late =
        |_| io::Error::new(io::ErrorKind::TimedOut, format!("{program} did not end within {deadline:?}"));
    let output = tokio::time::timeout(deadline, exchange).await.map_err(late)??;
    Ok(CniAnswer::of(&output, started.elapsed(), Duration::ZERO))
}

fn spawn(run: &Run) -> io::Result<Child> {
    let (program, arguments) = run.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(if program == "workload" { SELF } else { program });
    command.args(arguments).envs(&run.environment).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run.resolv_conf.as_deref().map_or(Ok(()), resolve_by)?;
    run.root.as_deref().map_or(Ok(()), enter)?;
    match &run.capabilities {
        Some(named) => take_on(run.owner, capabilities(named)?)?,
        None if run.owner != (0, 0) => take_on(run.owner, CapabilitySet::empty())?,
        None => {}
    }
    command.spawn()
}

/// Gives this thread, and what it starts, another `/etc/resolv.conf`. Nobody else sees it.
fn resolve_by(file: &Path) -> io::Result<()> {
    // A descriptor's path leads into the mount namespace that it was opened in, and nothing of another one can be mounted.
    let file = std::fs::canonicalize(file)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    Ok(mount(Some(&file), "/etc/resolv.conf", None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

/// Gives this thread, and what it starts, another root directory.
fn enter(root: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_FS)?;
    chroot(root)?;
    Ok(chdir("/")?)
}

/// Names, with or without `CAP_`.
fn capabilities(names: &[String]) -> io::Result<CapabilitySet> {
    let named = |name: &String| {
        let found = CapabilitySet::from_name(name.trim_start_matches("CAP_"));
        let why = || io::Error::new(io::ErrorKind::InvalidInput, format!("no capability is called {name:?}"));
        found.ok_or_else(why)
    };
    names.iter().map(named).collect()
}

/// Gives this thread, and what it starts, a user, a group and exactly these capabilities. They are ambient: otherwise only root would keep
/// them when it executes a program.
pub(super) fn take_on((user, group): (u32, u32), wanted: CapabilitySet) -> io::Result<()> {
    for (_, other) in CapabilitySet::all().difference(wanted).iter_names() {
        remove_capability_from_bounding_set(other)?;
    }
    set_keep_capabilities(true)?;
    if (user, group) != (0, 0) {
        set_thread_groups(&[])?;
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    set_capabilities(None, CapabilitySets { effective: wanted, permitted: wanted, inheritable: wanted })?;
    for (_, one) in wanted.iter_names() {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}
