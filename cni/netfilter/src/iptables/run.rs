// SPDX-License-Identifier: Apache-2.0
//! Runs a tool within a deadline, with nothing of our environment but `PATH`. Its input goes through a pipe (a file in memory is one that
//! a security module may keep it from reading: it then reads nothing, and succeeds) and what it says is read meanwhile, so that neither
//! side can wait for the other.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use redirect::ruleset::Family;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Surroundings;
use super::sandbox::{NodeLock, Unsandboxed, isolated};
use super::tool::{self, Tool, Version};
use super::{IptablesError, Problem, Variant, lock};

/// Bytes kept of each output stream.
const KEPT: usize = 4096;
/// Time to take guard rails away, whatever came before.
const MORE_TIME: Duration = Duration::from_secs(2);

/// A tool's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    /// Its exit status; none if a signal ended it.
    pub(super) status: Option<i32>,
    /// The beginning of its output.
    pub(super) text: String,
    /// The beginning of its errors.
    pub(super) errors: String,
}

/// Effect of a restore.
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
    let lock = command.get_envs().find_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    command.env_clear().env("PATH", tool::path()).envs(lock);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn()?);
    let (text, errors) = Talk::with(&mut child.0, input)?.until(deadline)?;
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

/// A child's input and output.
struct Talk<'a> {
    /// Readable when it has ended.
    end: Option<OwnedFd>,
    /// Where what is left of its input goes.
    input: Option<(ChildStdin, &'a [u8])>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    text: Vec<u8>,
    errors: Vec<u8>,
}

/// Something that a child does.
#[derive(Clone, Copy)]
enum Event {
    Ended,
    Reads,
    Says,
    Complains,
}

impl<'a> Talk<'a> {
    fn with(child: &mut Child, input: &'a str) -> io::Result<Self> {
        let end = if_there(pidfd_open(Pid::from_child(child), PidfdFlags::empty()))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        ioctl_fionbio(&stdin, true)?;
        Ok(Self {
            end,
            input: Some((stdin, input.as_bytes())),
            out,
            err,
            text: Vec::new(),
            errors: Vec::new(),
        })
    }

    /// Goes on until the child ends.
    fn until(mut self, deadline: Instant) -> io::Result<(String, String)> {
        let mut ended = false;
        self.feed();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // An ended child's output is there already; who else holds its pipes is not waited for.
            let left = if ended { Duration::ZERO } else { left };
            let events = self.wait(left, ended)?;
            if events.is_empty() {
                if ended {
                    break;
                }
                return Err(io::ErrorKind::TimedOut.into());
            }
            for event in events {
                match event {
                    Event::Ended => ended = true,
                    Event::Reads => self.feed(),
                    Event::Says => keep(&mut self.out, &mut self.text)?,
                    Event::Complains => keep(&mut self.err, &mut self.errors)?,
                }
            }
            ended |= self.end.is_none() && self.out.is_none() && self.err.is_none();
        }
        let spell = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((spell(self.text), spell(self.errors)))
    }

    /// Events within `left`; of a child that has ended only its output.
    fn wait(&self, left: Duration, ended: bool) -> io::Result<Vec<Event>> {
        let end = self.end.as_ref().map(AsFd::as_fd).filter(|_| !ended);
        let input = self.input.as_ref().map(|(to, _)| to.as_fd()).filter(|_| !ended);
        let all = [
            (Event::Ended, end, PollFlags::IN),
            (Event::Reads, input, PollFlags::OUT),
            (Event::Says, self.out.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (Event::Complains, self.err.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let open = all.into_iter().filter_map(|(event, file, interest)| Some((event, file?, interest)));
        let (events, mut files): (Vec<_>, Vec<_>) =
            open.map(|(event, file, interest)| (event, PollFd::from_borrowed_fd(file, interest))).unzip();
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        while let Err(errno) = poll(&mut files, Some(&timeout)) {
            if errno != Errno::INTR {
                return Err(errno.into());
            }
        }
        let happened = events.into_iter().zip(&files).filter(|(_, file)| !file.revents().is_empty());
        Ok(happened.map(|(event, _)| event).collect())
    }

    /// Writes what the pipe takes, and closes it behind the last byte. A child that does not want the rest says so by its status, and the
    /// rules that are missing are missed when they are read back.
    fn feed(&mut self) {
        let Some((mut to, mut rest)) = self.input.take() else { return };
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.input = Some((to, rest));
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

/// Before Linux 5.3, where legacy iptables is needed most, and under a seccomp filter that does not know the call (EPERM), the end of what
/// a child says has to do.
fn if_there(pidfd: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, Errno> {
    match pidfd {
        Ok(end) => Ok(Some(end)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Takes what waits, and keeps it if there is room. Closes at the end.
fn keep(from: &mut Option<impl io::Read>, kept: &mut Vec<u8>) -> io::Result<()> {
    let Some(open) = from else { return Ok(()) };
    let mut piece = [0; KEPT];
    let length = open.read(&mut piece)?;
    let room = KEPT.saturating_sub(kept.len());
    kept.extend_from_slice(piece.get(..length.min(room)).unwrap_or_default());
    if length == 0 {
        *from = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str, limit: Duration) -> io::Result<Output> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        output(command, input, Instant::now() + limit)
    }

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_tool_gets_all_of_its_input_through_a_pipe() {
        // More than a pipe holds, while the tool says more than a pipe holds.
        let input = "-A ISTIO_OUTPUT -j RETURN\n".repeat(20_000);
        let said = shell("test -p /dev/stdin && tee /dev/stderr | wc -c", &input, LIMIT).unwrap();
        assert_eq!((said.status, said.text.trim()), (Some(0), input.len().to_string().as_str()));
        assert_eq!(said.errors.len(), KEPT);
    }

    #[test]
    fn a_child_without_a_pidfd_ends_when_it_says_no_more() {
        for errno in [Errno::NOSYS, Errno::PERM] {
            assert!(matches!(if_there(Err(errno)), Ok(None)), "{errno}");
        }
        assert!(if_there(Err(Errno::MFILE)).is_err());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running(command.spawn().unwrap());
        let mut talk = Talk::with(&mut child.0, "*nat\n").unwrap();
        talk.end = None;
        let (text, _) = talk.until(Instant::now() + LIMIT).unwrap();
        assert_eq!(text, "*nat\n");
    }

    #[test]
    fn a_tool_that_does_not_read_is_not_waited_for() {
        let input = "x".repeat(1 << 20);
        assert_eq!(shell("exit 3", &input, LIMIT).unwrap().status, Some(3));
        let late = shell("exec sleep 60", &input, Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
