// SPDX-License-Identifier: Apache-2.0
//! Signals of the outer process, without threads: blocked, read from a descriptor, forwarded.

use std::os::fd::AsFd as _;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::{Ended, outcome};

/// Deadline of an interrupted run's reports.
const GRACE: Duration = Duration::from_secs(10);

/// Signals that end a run, and SIGCHLD.
pub(super) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals. Children inherit that, and have to undo it.
    pub(super) fn block() -> nix::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// Waits for the end of the child. The first signal asks it to end, the second or a lapse of time makes it.
    pub(super) fn wait_for(self, child: &mut Child) -> anyhow::Result<Ended> {
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let mut deadline: Option<Instant> = None;
        loop {
            if child.try_wait()?.is_some() {
                return outcome(child, deadline.is_some());
            }
            let Some(signal) = self.next(deadline)? else {
                kill(pid, Signal::SIGKILL)?;
                return outcome(child, true);
            };
            if signal == Signal::SIGCHLD {
                continue;
            }
            let last = deadline.is_some();
            kill(pid, if last { Signal::SIGKILL } else { Signal::SIGTERM })?;
            deadline = deadline.or_else(|| Some(Instant::now() + GRACE));
        }
    }

    /// Next signal, or `None` after the deadline.
    fn next(&self, deadline: Option<Instant>) -> anyhow::Result<Option<Signal>> {
        let timeout = deadline.map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_duration_since(Instant::now()).as_millis();
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let ready = poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout)?;
        if ready == 0 {
            return Ok(None);
        }
        let info = self.0.read_signal()?.context("a signal was announced and is not there")?;
        Ok(Some(Signal::try_from(i32::try_from(info.ssi_signo)?)?))
    }
}
