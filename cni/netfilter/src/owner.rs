// SPDX-License-Identifier: Apache-2.0
//! The user namespace that owns the calling thread's network namespace. The pod of a Kubernetes user namespace (`hostUsers: false`) has
//! one of its own, and the users and groups of its rules are meant there.
//!
//! The kernel takes a rule with iptables' `owner` match only from a writer inside that user namespace. Native rules (`meta skuid`), routes
//! and addresses need no more than its capabilities, which root of a parent has.

#![expect(unsafe_code, reason = "no library knows how to ask for the owner of a namespace")]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, capabilities, configure_capability_in_ambient_set,
    move_into_link_name_space, set_capabilities,
};

use crate::netns::own_proc;

/// Failure to enter the user namespace.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// The own namespaces cannot be looked at.
    #[error("find the user namespace that owns the network namespace: look at {what}")]
    Look {
        /// At what.
        what: &'static str,
        #[source]
        reason: io::Error,
    },
    /// It is not below the caller's.
    #[error("find the user namespace that owns the network namespace: it lies outside of the caller's")]
    Outside,
    /// The caller may not.
    #[error(
        "enter the user namespace that owns the network namespace: not permitted (needs CAP_SYS_ADMIN in it, as root of the node has)"
    )]
    Permission,
    /// A process with threads cannot.
    #[error(
        "enter the user namespace that owns the network namespace: a process with more than one thread cannot"
    )]
    Threads,
    /// Programs that are started would have no capabilities.
    #[error("hand capabilities on to the iptables tools")]
    Keep(#[source] io::Error),
    /// The kernel refused.
    #[error("enter the user namespace that owns the network namespace")]
    Enter(#[source] io::Error),
}

/// Outcome of entering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// The process is in another user namespace now.
    Now,
    /// It was there before.
    Before,
}

/// Enters the user namespace that owns the calling thread's network namespace, with all capabilities in it and none outside. There is no way
/// back, and only a process with one thread can.
///
/// # Errors
/// See [`OwnerError`]; the process is where it was then.
pub fn enter() -> Result<Entered, OwnerError> {
    const OWNER: &str = "its owner";
    let (net, user) = (own_proc!("ns/net"), own_proc!("ns/user"));
    let failed = |what| move |errno: Errno| OwnerError::Look { what, reason: errno.into() };
    let netns = open(net, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed(net))?;
    // SAFETY: the file is a namespace, for which the number means exactly this question.
    let owner = unsafe { rustix::ioctl::ioctl(&netns, OwnerOf) }.map_err(|errno| match errno {
        Errno::PERM => OwnerError::Outside,
        errno => failed(OWNER)(errno),
    })?;
    let (there, here) = (fstat(&owner).map_err(failed(OWNER))?, stat(user).map_err(failed(user))?);
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) {
        return Ok(Entered::Before);
    }
    match move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User)) {
        Ok(()) => Ok(Entered::Now),
        Err(Errno::PERM) => Err(OwnerError::Permission),
        Err(Errno::INVAL) => Err(OwnerError::Threads),
        Err(errno) => Err(OwnerError::Enter(errno.into())),
    }
}

/// Capabilities that the iptables tools need.
const OF_TOOLS: [CapabilitySet; 2] = [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW];

/// As [`enter`], for a process that then starts the iptables tools. A program that is started would lose all capabilities there: the caller's
/// user is not root in that user namespace, and stays who it is, so that the node's files are within reach.
///
/// # Errors
/// As [`enter`].
pub fn enter_with_programs() -> Result<Entered, OwnerError> {
    let entered = enter()?;
    match (keep_for_programs(), entered) {
        (Err(errno), Entered::Now) => Err(OwnerError::Keep(errno.into())),
        // It may have been entered for rules of nf_tables. Who never left its own may lack them, and its programs say so.
        _ => Ok(entered),
    }
}

/// Hands what the tools cannot do without on to programs that are started.
fn keep_for_programs() -> Result<(), Errno> {
    let mut sets = capabilities(None)?;
    for capability in OF_TOOLS {
        sets.inheritable |= capability;
    }
    set_capabilities(None, sets)?;
    OF_TOOLS.into_iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))
}

/// `NS_GET_USERNS`
struct OwnerOf;

// SAFETY: the kernel reads and writes no memory for it and answers with a file that is the caller's alone.
unsafe impl Ioctl for OwnerOf {
    type Output = OwnedFd;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::none(0xb7, 1)
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        // SAFETY: a call that did not fail returns a new file.
        Ok(unsafe { OwnedFd::from_raw_fd(output) })
    }
}
