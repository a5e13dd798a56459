// SPDX-License-Identifier: Apache-2.0
//! Directories of the node that are gone from their path while they are mounted here: deleted, moved, or behind a link that leads elsewhere now.
//! A mount goes on showing the former one, and what took its place is out of reach, until a container that is started anew mounts it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use netfilter::node_root::NodeRoot;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::settings::Places;

/// Observed state of each mounted directory, by path.
#[derive(Debug, Default)]
pub struct Mounts {
    /// Mount and path in its file system.
    mounts: BTreeMap<PathBuf, Mount>,
    /// Directories that the node had at their path.
    at_path: BTreeMap<PathBuf, DirectoryId>,
}

/// Device and inode.
type DirectoryId = (u64, u64);

impl Mounts {
    /// The first directory that was deleted, or moved since the last look, with what is mounted here. Moves are seen from Linux 5.8 on.
    pub fn orphaned(&mut self, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
        let mountinfo = mountinfo();
        directories.into_iter().find(|directory| self.is_orphaned(directory, &mountinfo))
    }

    /// The first mounted directory at whose path the node has had another one since the last look: a link on the way was turned. Mounts go with
    /// their paths on the node.
    pub fn turned(&mut self, places: &Places) -> Option<PathBuf> {
        let root = NodeRoot::open(&places.proc_dir)?;
        let mut directories = places.on_node.iter();
        directories
            .find(|(mount, path)| self.is_turned(mount, id(mount), &root.directories(path)))
            .map(|(mount, _)| mount.clone())
    }

    /// Decides by the directory that is mounted, and those that the node's processes see at its path. Who never saw the mounted one there sees
    /// the node in another way than the runtime does, and does not know.
    fn is_turned(&mut self, mount: &Path, mounted: Option<DirectoryId>, on_node: &[DirectoryId]) -> bool {
        let Some(mounted) = mounted else { return false };
        if on_node.contains(&mounted) {
            self.at_path.insert(mount.to_owned(), mounted);
            return false;
        }
        !on_node.is_empty() && self.at_path.get(mount) == Some(&mounted)
    }

    fn is_orphaned(&mut self, directory: &Path, mountinfo: &str) -> bool {
        if fs::metadata(directory).is_ok_and(|found| found.is_dir() && found.nlink() == 0) {
            return true;
        }
        let Some(now) = Mount::of(directory, mountinfo) else { return false };
        let is_moved = |before: Mount| now.is_moved(&before);
        self.mounts.insert(directory.to_owned(), now.clone()).is_some_and(is_moved)
    }
}

fn id(directory: &Path) -> Option<DirectoryId> {
    fs::metadata(directory).ok().map(|is| (is.dev(), is.ino()))
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
    fn a_link_that_turns_is_seen_by_who_saw_where_it_led() {
        let mount = Path::new("/host/opt/cni/bin");
        let (mounted, other) = ((1, 10), (1, 20));
        // Directories at the node's path in each pass; true if the last pass finds a turned link.
        type Looks<'a> = &'a [(&'a [DirectoryId], bool)];
        let table: [Looks<'_>; 6] = [
            &[(&[mounted], false), (&[mounted], false)],
            &[(&[mounted], false), (&[other], true)],
            // Between its removal and the new one.
            &[(&[mounted], false), (&[], false), (&[other], true)],
            &[(&[mounted, other], false), (&[other], true)],
            // Never seen by way of these processes, as in a mount namespace of the runtime's own.
            &[(&[other], false), (&[other], false)],
            &[(&[], false), (&[other], false)],
        ];
        for looks in table {
            let mut mounts = Mounts::default();
            for (on_node, is_turned) in looks {
                assert_eq!(mounts.is_turned(mount, Some(mounted), on_node), *is_turned, "{looks:?}");
            }
        }
        let mut mounts = Mounts::default();
        assert!(!mounts.is_turned(mount, Some(mounted), &[mounted]));
        assert!(!mounts.is_turned(mount, Some(other), &[other]), "a mount over it shows what the node has");
        assert!(!mounts.is_turned(mount, None, &[other]));
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
