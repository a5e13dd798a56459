// SPDX-License-Identifier: Apache-2.0
//! Mounts that nobody else sees.

use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Gives the calling thread a mount namespace of its own, nothing of which propagates.
pub fn private() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace takes root or a user namespace");
    make_private();
}

/// Ends propagation out of this mount namespace.
pub(crate) fn make_private() {
    change("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE);
}

/// Nothing of this mount can be written any more.
pub fn make_read_only(path: impl AsRef<Path>) {
    change(path, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY);
}

fn change(path: impl AsRef<Path>, flags: MsFlags) {
    mount(None::<&str>, path.as_ref(), None::<&str>, flags, None::<&str>).unwrap();
}

/// Mounts an empty file system.
pub fn tmpfs(path: impl AsRef<Path>) {
    new("tmpfs", path.as_ref());
}

/// Mounts the `/proc` of this pid namespace.
pub(crate) fn proc() {
    new("proc", Path::new("/proc"));
}

fn new(kind: &str, path: &Path) {
    mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>).unwrap();
}

/// Mounts a file or a directory, and what is mounted below it, over another.
pub fn bind(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from.as_ref()), to.as_ref(), None::<&str>, flags, None::<&str>).unwrap();
}
