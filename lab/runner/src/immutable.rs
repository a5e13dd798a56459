// SPDX-License-Identifier: Apache-2.0
//! The immutable flag of files (`chattr +i`): an error in the way of whoever is root.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Need `@immutable`: `CAP_LINUX_IMMUTABLE` counts in the first user namespace alone (`capable` in `fs/ioctl.c`).
pub const IMMUTABLE: &str = "immutable";

/// Sets the flag, or clears it.
pub fn set(path: &Path, immutable: bool) -> io::Result<()> {
    let file = File::open(path)?;
    let mut flags = ioctl_getflags(&file)?;
    flags.set(IFlags::IMMUTABLE, immutable);
    Ok(ioctl_setflags(&file, flags)?)
}

/// Checks that the file system has the flag, and that this process may change it.
pub fn try_flag(path: &Path) -> io::Result<()> {
    set(path, true)?;
    set(path, false)
}
