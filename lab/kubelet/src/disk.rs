// SPDX-License-Identifier: Apache-2.0
//! A disk of its own beneath a directory of a node, which can fill up or become read-only.

use std::fs;
use std::path::{Path, PathBuf};

use cluster::Disk;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;

use crate::error::Error;

const NONE: Option<&str> = None;
/// Stands for the directory of an ext4: without a file that takes a page, a full tmpfs would be one of no bytes, which means any number.
const LOST_AND_FOUND: &str = "lost+found";

/// A file system on a directory; what it hides is seen again when it goes.
#[derive(Debug)]
pub(crate) struct LaidDisk(PathBuf);

impl Drop for LaidDisk {
    fn drop(&mut self) {
        // The lab's own mount namespace takes what this leaves.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl LaidDisk {
    pub(crate) fn on(directory: &Path, takes: Disk) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        let beneath = directory.with_extension("beneath");
        fs::create_dir(&beneath).map_err(Error::file("make", &beneath))?;
        let disk = Self::lay(directory, &beneath);
        let _ = umount2(&beneath, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&beneath);
        let disk = disk?;
        disk.turn(takes)?;
        Ok(disk)
    }

    /// Mounts the disk, and copies the directory's content through a bind mount at `beneath`.
    fn lay(directory: &Path, beneath: &Path) -> Result<Self, Error> {
        let failed = |errno: Errno| Error::file("mount a disk on", directory)(errno.into());
        mount(Some(directory), beneath, NONE, MsFlags::MS_BIND, NONE).map_err(failed)?;
        // Else the disk would propagate to it.
        mount(NONE, beneath, NONE, MsFlags::MS_PRIVATE, NONE).map_err(failed)?;
        mount(Some("disk"), directory, Some("tmpfs"), MsFlags::empty(), NONE).map_err(failed)?;
        let disk = Self(directory.to_owned());
        mount(NONE, directory, NONE, MsFlags::MS_PRIVATE, NONE).map_err(failed)?;
        for entry in fs::read_dir(beneath).map_err(Error::file("read", beneath))?.flatten() {
            let path = directory.join(entry.file_name());
            fs::copy(entry.path(), &path).map_err(Error::file("write", path))?;
        }
        let path = directory.join(LOST_AND_FOUND);
        fs::write(&path, "0").map_err(Error::file("write", path))?;
        Ok(disk)
    }

    /// The file system itself, and with it whoever sees it; not the mount, which others are made of that would keep its flags.
    pub(crate) fn turn(&self, takes: Disk) -> Result<(), Error> {
        let failed = |errno: Errno| Error::file("remount", &self.0)(errno.into());
        let room = match takes {
            Disk::Room(room) => u64::from(room),
            Disk::ReadOnly => 0,
        };
        let now = statvfs(&self.0).map_err(failed)?;
        let size = format!("size={}", (now.blocks() - now.blocks_free()) * now.fragment_size() + room);
        let flags = if takes == Disk::ReadOnly { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        let turn = |flags, data| mount(NONE, &self.0, NONE, MsFlags::MS_REMOUNT | flags, data);
        turn(flags, Some(&*size)).and_then(|()| turn(MsFlags::MS_BIND, NONE)).map_err(failed)
    }
}
