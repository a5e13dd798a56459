// SPDX-License-Identifier: Apache-2.0
//! The outer process: makes the namespaces that a run lives in, starts their first process, forwards signals to it and
//! waits. When it dies, however it dies, the kernel kills that first process, and with it everything that a run made.
//!
//! The namespaces are made before any thread exists, because a process with threads can neither enter a user namespace
//! nor give its children another pid namespace.

pub mod ids;
pub mod inside;
mod signals;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sched::CloneFlags;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::board;
use crate::carried::SELF;
use crate::exit::Exit;
use crate::plan::{Orders, Place, Privilege, Task};
use signals::Signals;

/// Deadline of the first message of the sandbox's first process.
const HELLO: Duration = Duration::from_secs(20);

const NAMESPACES: CloneFlags =
    CloneFlags::CLONE_NEWNS.union(CloneFlags::CLONE_NEWNET).union(CloneFlags::CLONE_NEWPID);

/// End of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its process returned an exit.
    Itself(Exit),
    /// Its process was ended, and wrote no report.
    Early(Early),
}

/// End of a process that was ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Early {
    /// Cause: `the lab's process was killed by SIGKILL`.
    pub cause: String,
    /// True if the user ended it.
    pub interrupted: bool,
}

impl Ended {
    /// Exit of a task that leaves nothing to report.
    #[must_use]
    pub fn exit(self) -> Exit {
        match self {
            Self::Itself(exit) => exit,
            Self::Early(Early { interrupted: true, .. }) => Exit::Interrupted,
            Self::Early(Early { cause, .. }) => {
                board::complain(cause);
                Exit::Inconclusive
            }
        }
    }
}

/// Runs a task in a sandbox.
pub fn run(task: Task) -> anyhow::Result<Ended> {
    let as_root = geteuid().is_root() && !task.is_nobodys_root();
    within(task, || enter(as_root))
}

/// Runs a task that needs no namespaces: its process alone is another one, which this one outlives.
pub fn beside(task: Task, reason: &str) -> anyhow::Result<Ended> {
    within(task, || Privilege::Denied { reason: reason.to_owned() })
}

fn within(task: Task, enter: impl FnOnce() -> Privilege) -> anyhow::Result<Ended> {
    let signals = Signals::block().context("cannot take over signals")?;
    let privilege = enter();
    let (ours, theirs) = UnixStream::pair().context("no socket pair")?;
    let mut child = Command::new(SELF)
        .arg0("cnilab")
        .arg("inside")
        .stdin(OwnedFd::from(theirs))
        // Ctrl-C reaches this process only, and it passes it on once, in its own words.
        .process_group(0)
        .spawn()
        .context("cannot start the sandbox")?;
    hand_over(ours, &Orders { task, place: Place { privilege, outer_pid: child.id() } })?;
    signals.wait_for(&mut child)
}

/// Rejects paths that a sandbox would not see: it has a `/run` of its own.
pub fn require_visible<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> anyhow::Result<()> {
    match paths.into_iter().find(|path| path.starts_with("/run")) {
        Some(path) => bail!("{} lies below /run, which the sandbox replaces", path.display()),
        None => Ok(()),
    }
}

/// Enters the namespaces. A refusal is not an error: it is what the report has to say.
fn enter(as_root: bool) -> Privilege {
    if as_root {
        return match nix::sched::unshare(NAMESPACES) {
            Ok(()) => Privilege::Root,
            Err(errno) => {
                Privilege::Denied { reason: format!("unshare(pid, mount, network) as root: {errno}") }
            }
        };
    }
    match ids::enter_user_namespace(NAMESPACES) {
        Ok(mapping) => Privilege::UserNamespace { mapping },
        Err(error) => Privilege::Denied { reason: format!("no user namespace: {error:#}") },
    }
}

/// Gives the child its orders, but only once it has said that it will die with this process: a child that was started
/// and never got orders ends by itself.
fn hand_over(mut socket: UnixStream, orders: &Orders) -> anyhow::Result<()> {
    socket.set_read_timeout(Some(HELLO))?;
    socket.read_exact(&mut [0]).context("the sandbox did not start")?;
    serde_json::to_writer(&mut socket, orders).context("cannot hand over the orders")?;
    socket.flush()?;
    socket.shutdown(Shutdown::Write)?;
    Ok(())
}

/// End of a run, from its child's exit status.
fn outcome(child: &mut Child, interrupted: bool) -> anyhow::Result<Ended> {
    let status = child.wait()?;
    Ok(match status.code().and_then(Exit::from_code) {
        Some(exit) => Ended::Itself(exit),
        None => Ended::Early(Early { cause: format!("the lab's process {}", cause(status)), interrupted }),
    })
}

fn cause(status: ExitStatus) -> String {
    let signal = status.signal().and_then(|number| Signal::try_from(number).ok());
    signal.map_or_else(|| format!("ended with {status}"), |signal| format!("was killed by {signal}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_that_wrote_no_report_has_its_cause() {
        let cause = |raw| cause(ExitStatus::from_raw(raw));
        assert_eq!(cause(9), "was killed by SIGKILL");
        assert_eq!(cause(101 << 8), "ended with exit status: 101");
    }
}
