// SPDX-License-Identifier: Apache-2.0
//! A disk of its own beneath a directory of a node, which can fill up or become read-only.

use std::fs;
use std::path::{Path, PathBuf};

use cluster::Files;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::error::Error;

/// A file system on a directory; what it hides is seen again when it goes.
#[derive(Debug)]
pub(crate) struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        // The lab's own mount namespace takes what this leaves.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Disk {
    pub(crate) fn on(directory: &Path, size: u32) -> Result<Self, Error> {
        let read = |path: &Path| fs::read(path).map_err(Error::file("read", path));
        let mut held = Vec::new();
        for entry in fs::read_dir(directory).map_err(Error::file("read", directory))?.flatten() {
            held.push((entry.file_name(), read(&entry.path())?));
        }
        let (none, size) = (None::<&str>, format!("size={size}"));
        let failed = || Error::file("mount a disk on", directory);
        mount(Some("disk"), directory, Some("tmpfs"), MsFlags::empty(), Some(&*size))
            .map_err(|errno| failed()(errno.into()))?;
        let disk = Self(directory.to_owned());
        mount(none, directory, none, MsFlags::MS_PRIVATE, none).map_err(|errno| failed()(errno.into()))?;
        for (name, text) in held {
            let path = directory.join(name);
            fs::write(&path, text).map_err(Error::file("write", path))?;
        }
        Ok(disk)
    }

    /// The file system itself, and with it whoever sees it; not the mount, which others are made of that would keep its flags.
    pub(crate) fn turn(&self, files: Files) -> Result<(), Error> {
        let flags = if files == Files::ReadOnly { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        let none = None::<&str>;
        let turn = |flags| mount(none, &self.0, none, MsFlags::MS_REMOUNT | flags, none);
        let turned = turn(flags).and_then(|()| turn(MsFlags::MS_BIND));
        turned.map_err(|errno| Error::file("remount", &self.0)(errno.into()))
    }
}
