// SPDX-License-Identifier: Apache-2.0
//! Runs a tool within a deadline, with nothing of our environment but `PATH`. Its input lies in memory and what it says is read while
//! it runs, so that neither side can wait for the other.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redirect::ruleset::Family;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::sandbox::{NodeLock, Unsandboxed, isolated};
use super::tool::{self, Tool, Version};
use super::{IptablesError, Problem, Variant, lock};
use crate::program::Surroundings;

/// How much of what a tool says is kept.
const KEPT: usize = 4096;
/// What taking guard rails away may take, whatever came before.
const MORE_TIME: Duration = Duration::from_secs(2);

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    /// Its exit status; none if a signal ended it.
    pub(super) status: Option<i32>,
    /// The beginning of its output.
    pub(super) text: String,
    /// The beginning of its errors.
    pub(super) errors: String,
}

/// Whether what is restored takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// It is only built.
    Never,
    /// Table by table.
    EachTable,
}

/// Restores rules with tools of one variant.
pub(super) struct Runner {
    tools: Vec<(Family, Tool)>,
    surroundings: Surroundings,
    started: Instant,
    deadline: Instant,
}

impl Runner {
    /// Finds the tools of all families before the first is used.
    pub(super) fn find(
        variant: Variant,
        families: &[Family],
        surroundings: Surroundings,
        deadline: Instant,
    ) -> Result<Self, IptablesError> {
        let found = families.iter().map(|family| Ok((*family, tool::find(variant, *family, deadline)?)));
        let tools = found.collect::<Result<Vec<_>, IptablesError>>()?;
        Ok(Self { tools, surroundings, started: Instant::now(), deadline })
    }

    /// The families that it has tools for.
    pub(super) fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.tools.iter().map(|(family, _)| *family)
    }

    /// The same tools with time for one more call.
    pub(super) fn with_more_time(&self) -> Self {
        let started = Instant::now();
        Self {
            tools: self.tools.clone(),
            surroundings: self.surroundings,
            started,
            deadline: started + MORE_TIME,
        }
    }

    /// Runs `work` where the tools cannot see what they must not.
    pub(super) fn isolated<T: Send>(&self, work: impl FnOnce() -> T + Send) -> (T, Option<Unsandboxed>) {
        if self.surroundings == Surroundings::Container {
            return (work(), None);
        }
        let old =
            |tool: &Tool| tool.variant == Variant::Legacy && !tool.version.is_at_least(Version::NAMES_LOCK);
        let old = self.tools.iter().any(|(_, tool)| old(tool));
        isolated(if old { NodeLock::Replaced } else { NodeLock::Untouched }, work)
    }

    /// Restores rules of one family.
    pub(super) fn restore(&self, family: Family, commit: Commit, text: &str) -> Result<(), IptablesError> {
        let Some((_, tool)) = self.tools.iter().find(|(found, _)| *found == family) else { return Ok(()) };
        let mut command = Command::new(&tool.path);
        command.arg("--noflush");
        if commit == Commit::Never {
            command.arg("--test");
        }
        if tool.variant == Variant::Legacy {
            command.env("XTABLES_LOCKFILE", lock::NAMESPACE);
            if tool.version.is_at_least(Version::WAITS) {
                // Less than what is left, so that the tool and not its end tells what it waited for.
                let left = self.deadline.saturating_duration_since(Instant::now());
                command.arg(format!("--wait={}", left.as_secs().saturating_sub(1).max(1)));
            }
        }
        match output(command, text, self.deadline) {
            Ok(said) if said.status == Some(0) => Ok(()),
            Ok(said) => Err(self.failure(tool, &said)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(self.late(tool)),
            Err(reason) => Err(IptablesError::Start { tool: tool.name(), reason }),
        }
    }

    fn failure(&self, tool: &Tool, said: &Output) -> IptablesError {
        if tool.variant == Variant::Legacy && said.status == Some(4) && said.errors.contains("xtables lock") {
            return self.locked(tool, lock::holder());
        }
        let message = said.errors.split_once(':').map_or(said.errors.as_str(), |(_, rest)| rest);
        let message = message.trim().to_owned();
        IptablesError::Failed { tool: tool.name(), problem: Problem::of(said.status), message }
    }

    fn late(&self, tool: &Tool) -> IptablesError {
        match lock::holder().filter(|_| tool.variant == Variant::Legacy) {
            Some(holder) => self.locked(tool, Some(holder)),
            None => IptablesError::Timeout { tool: tool.name(), limit: self.deadline - self.started },
        }
    }

    fn locked(&self, tool: &Tool, holder: Option<u32>) -> IptablesError {
        let named = tool.version.is_at_least(Version::NAMES_LOCK);
        let lock = if named { lock::NAMESPACE } else { lock::NODE };
        IptablesError::Locked { tool: tool.name(), lock, holder }
    }
}

/// Runs a command to its end, or ends it when `deadline` passes ([`io::ErrorKind::TimedOut`]).
pub(super) fn output(mut command: Command, input: &str, deadline: Instant) -> io::Result<Output> {
    let mut memory = File::from(rustix::fs::memfd_create("rules", MemfdFlags::CLOEXEC)?);
    memory.write_all(input.as_bytes())?;
    memory.rewind()?;
    let lock = command.get_envs().find_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    command.env_clear().env("PATH", tool::path()).envs(lock);
    command.stdin(memory).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn()?);
    let (text, errors) = listen(&mut child.0, deadline)?;
    let status = child.0.wait()?.code();
    Ok(Output { status, text, errors })
}

/// A child that does not outlive the interest in it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing to one that was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads what a child says until it ends.
fn listen(child: &mut Child, deadline: Instant) -> io::Result<(String, String)> {
    let end = match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        Ok(end) => Some(end),
        // Before Linux 5.3, where legacy iptables is needed most, the end of what it says has to do.
        Err(Errno::NOSYS) => None,
        Err(errno) => return Err(errno.into()),
    };
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let (mut text, mut errors) = (Vec::new(), Vec::new());
    let (mut out_open, mut err_open, mut ended) = (true, true, false);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // What an ended child said is there already; who else holds its pipes is not waited for.
        let left = if ended { Duration::ZERO } else { left };
        let interest = |open: bool| if open { PollFlags::IN } else { PollFlags::empty() };
        let mut files = [
            PollFd::from_borrowed_fd(
                end.as_ref().map_or(out.as_fd(), AsFd::as_fd),
                interest(end.is_some() && !ended),
            ),
            PollFd::from_borrowed_fd(out.as_fd(), interest(out_open)),
            PollFd::from_borrowed_fd(err.as_fd(), interest(err_open)),
        ];
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut files, Some(&timeout)) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(0) if ended => break,
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
        }
        let [died, said, complained] = files.map(|file| !file.revents().is_empty());
        ended |= if end.is_some() { died } else { !out_open && !err_open };
        if said && out_open {
            out_open = keep(&mut out, &mut text)?;
        }
        if complained && err_open {
            err_open = keep(&mut err, &mut errors)?;
        }
        if ended && !(said && out_open) && !(complained && err_open) {
            break;
        }
    }
    let spell = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((spell(text), spell(errors)))
}

/// Takes what waits, and keeps it if there is room. False at the end.
fn keep(from: &mut impl io::Read, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; KEPT];
    let length = from.read(&mut piece)?;
    let room = KEPT.saturating_sub(kept.len());
    kept.extend_from_slice(piece.get(..length.min(room)).unwrap_or_default());
    Ok(length > 0)
}
