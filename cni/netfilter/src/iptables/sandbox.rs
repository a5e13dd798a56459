// SPDX-License-Identifier: Apache-2.0
//! Keeps a tool that runs on the node from the node's files: a mount namespace of its own, on a thread of its own. The tools look up
//! names, which with the node's `nsswitch.conf` could mean to ask a network that the pod does not have; old ones lock a file of
//! the node.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use super::lock;
use crate::netns::own_proc;
use crate::unshare;

/// Where the C library reads how names are looked up.
const NAME_SERVICES: &str = "/etc/nsswitch.conf";

/// A step of making the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SandboxStep {
    MountNamespace,
    Propagation,
    NameServices,
    Lock,
}

/// Cause of a tool's run without its sandbox. It worked all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsandboxed {
    /// The failed step.
    pub step: SandboxStep,
    /// The system's error number.
    pub errno: i32,
}

impl fmt::Display for Unsandboxed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            SandboxStep::MountNamespace => "make a mount namespace",
            SandboxStep::Propagation => "keep mounts from the node",
            SandboxStep::NameServices => "hide /etc/nsswitch.conf",
            SandboxStep::Lock => "replace /run/xtables.lock",
        };
        let reason = io::Error::from_raw_os_error(self.errno);
        write!(out, "the iptables tools saw the node's files: failed to {step}: {reason}")
    }
}

/// Lock that the tool must be kept from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLock {
    /// None: it is told another.
    Untouched,
    /// The node's, which it knows no other way about.
    Replaced,
}

/// Runs `work` in a mount namespace of its own, or without where that cannot be made.
pub(super) fn isolated<T: Send>(lock: NodeLock, work: impl FnOnce() -> T + Send) -> (T, Option<Unsandboxed>) {
    std::thread::scope(|scope| {
        let inside = move || {
            let failed = prepare(lock).err();
            (work(), failed)
        };
        // The new thread is in this one's network namespace.
        match scope.spawn(inside).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn prepare(lock: NodeLock) -> Result<(), Unsandboxed> {
    let failed = |step| move |errno: Errno| Unsandboxed { step, errno: errno.raw_os_error() };
    unshare::mounts().map_err(failed(SandboxStep::MountNamespace))?;
    let all = |kind| mount_change("/", kind | MountPropagationFlags::REC);
    all(MountPropagationFlags::PRIVATE)
        .or_else(|_| all(MountPropagationFlags::DOWNSTREAM))
        .map_err(failed(SandboxStep::Propagation))?;
    if lock == NodeLock::Replaced {
        mount_bind(own_proc!("ns/net"), lock::NODE).map_err(failed(SandboxStep::Lock))?;
    }
    match mount_bind("/dev/null", NAME_SERVICES) {
        // Without the file nothing is looked up over a network either.
        Err(Errno::NOENT) | Ok(()) => Ok(()),
        Err(errno) => Err(failed(SandboxStep::NameServices)(errno)),
    }
}
