// SPDX-License-Identifier: Apache-2.0
//! Directories of the node that are gone from their path while they are mounted here. A mount goes on showing one that was deleted or moved,
//! and what took its place is out of reach, until a container that is started anew mounts it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Mount and path in its file system, of each directory that was looked at.
#[derive(Debug, Default)]
pub struct Mounts(BTreeMap<PathBuf, Mount>);

impl Mounts {
    /// The first directory that was deleted, or moved since the last look, with what is mounted here. Moves are seen from Linux 5.8 on.
    pub fn orphaned(&mut self, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
        let mountinfo = mountinfo();
        directories.into_iter().find(|directory| self.is_orphaned(directory, &mountinfo))
    }

    fn is_orphaned(&mut self, directory: &Path, mountinfo: &str) -> bool {
        if fs::metadata(directory).is_ok_and(|found| found.is_dir() && found.nlink() == 0) {
            return true;
        }
        let Some(now) = Mount::of(directory, mountinfo) else { return false };
        let is_moved = |before: Mount| now.is_moved(&before);
        self.0.insert(directory.to_owned(), now.clone()).is_some_and(is_moved)
    }
}

/// Mounts of this process; none where they cannot be read.
fn mountinfo() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// A mount, as in proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// The directory that it shows, by the path that it has in its file system now. Deleted, it ends with `//deleted`.
    root: String,
}

impl Mount {
    /// The mount through which a directory is reached.
    fn of(directory: &Path, mountinfo: &str) -> Option<Self> {
        let found = statx(CWD, directory, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return None;
        }
        Self::read(mountinfo, found.stx_mnt_id)
    }

    /// The line of a mount: `ID PARENT MAJOR:MINOR ROOT …`.
    fn read(mountinfo: &str, id: u64) -> Option<Self> {
        mountinfo.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let is_its = fields.next()?.parse() == Ok(id);
            is_its.then(|| fields.nth(2))?.map(|root| Self { id, root: root.to_owned() })
        })
    }

    /// True if it is the same mount with another path. Another mount over it shows what is on the node.
    fn is_moved(&self, before: &Self) -> bool {
        self.id == before.id && self.root != before.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        36 35 0:31 / / rw - overlay overlay rw,lowerdir=/l\n\
        361 36 254:1 /etc/cni/net.d /host/etc/cni/net.d rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw\n\
        362 36 254:1 /opt/my\\040cni /host/opt/cni/bin rw - ext4 /dev/vda1 rw\n";

    fn root(table: &str, id: u64) -> Option<String> {
        Mount::read(table, id).map(|mount| mount.root)
    }

    #[test]
    fn the_root_of_a_mount_is_read() {
        assert_eq!(root(TABLE, 36).as_deref(), Some("/"));
        assert_eq!(root(TABLE, 361).as_deref(), Some("/etc/cni/net.d"));
        assert_eq!(root(TABLE, 362).as_deref(), Some("/opt/my\\040cni"));
        for (table, id) in [(TABLE, 35), ("", 36), ("36 35 0:31", 36), ("x\n36", 36)] {
            assert_eq!(root(table, id), None, "{id} in {table:?}");
        }
    }

    #[test]
    fn a_mount_whose_root_has_another_path_shows_what_was_moved() {
        let mount = |id, root: &str| Mount { id, root: root.to_owned() };
        let before = mount(361, "/etc/cni/net.d");
        for (now, is_moved) in [
            (mount(361, "/etc/cni/net.d"), false),
            (mount(361, "/etc/cni/net.d.bak"), true),
            (mount(361, "/etc/cni.bak/net.d"), true),
            (mount(361, "/etc/cni/net.d//deleted"), true),
            (mount(400, "/etc/cni/net.d.bak"), false),
        ] {
            assert_eq!(now.is_moved(&before), is_moved, "{now:?}");
        }
    }

    #[test]
    fn a_directory_that_is_no_mount_of_its_own_may_be_made_anew() {
        let (dir, mut mounts) = (tempfile::tempdir().unwrap(), Mounts::default());
        let path = dir.path().join("net.d");
        fs::create_dir(&path).unwrap();
        assert!(Mount::of(&path, &mountinfo()).is_some());
        assert_eq!(mounts.orphaned([path.clone()]), None);
        fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(mounts.orphaned([path.clone()]), None);
        fs::create_dir(&path).unwrap();
        assert_eq!(mounts.orphaned([path]), None);
    }
}
