// SPDX-License-Identifier: Apache-2.0
//! Takes the calling thread out of a namespace that it shares, into a new one that ends with it.

#![expect(unsafe_code, reason = "unsharing file descriptors could break other threads; namespaces cannot")]

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A new network namespace.
pub(crate) fn network() -> Result<(), Errno> {
    // SAFETY: file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}

/// A new mount namespace, with a copy of what was mounted.
pub(crate) fn mounts() -> Result<(), Errno> {
    // SAFETY: file descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
}
