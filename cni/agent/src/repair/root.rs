// SPDX-License-Identifier: Apache-2.0
//! The node's file system as its first process sees it, by way of `/proc/1/root`: mounts that are made later are there at once, whether the
//! node shares them with containers or not. A mount of their directory follows them only where the node shares it (systemd does; the nodes of
//! k3d and Docker Desktop do not, and runtimes refuse to start a container that asks for it there).

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use netfilter::Netns;
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// What is opened never holds the caller, whatever it turns out to be.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The root of the node's first process.
#[derive(Debug)]
pub struct NodeRoot {
    root: OwnedFd,
}

impl NodeRoot {
    /// Opens it; `None` where the node's processes are not seen, or `SYS_PTRACE` is lacking.
    #[must_use]
    pub fn open(proc_dir: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, proc_dir.join("1/root"), flags, Mode::empty()).ok()?;
        Some(Self { root })
    }

    /// The namespace at a path of the node, if there is one.
    #[must_use]
    pub fn netns(&self, path: &Path) -> Option<Netns> {
        let file = self.file(path, READ).ok()?;
        // Once more by its number, as there is no other way to open by a path below a root.
        Netns::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
    }

    /// Whether something has a path of the node; `None` where that cannot be told.
    #[must_use]
    pub fn has(&self, path: &Path) -> Option<bool> {
        match self.file(path, OFlags::PATH | OFlags::CLOEXEC) {
            Ok(_) => Some(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(false),
            Err(_) => None,
        }
    }

    /// All namespaces in a directory of the node.
    pub fn netns_in(&self, directory: &Path) -> impl Iterator<Item = Netns> {
        let names = self.file(directory, READ | OFlags::DIRECTORY).map(names).unwrap_or_default();
        let directory = directory.to_owned();
        names.into_iter().filter_map(move |name| self.netns(&directory.join(name)))
    }

    /// Opens a path of the node. Absolute links, as `/var/run` is one on some nodes, are the node's.
    fn file(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Linux before 5.6, or a filter of system calls that is older than that one.
            Err(Errno::NOSYS | Errno::PERM) => openat(&self.root, without_link(path), flags, Mode::empty()),
            opened => opened,
        }
    }
}

/// The path below the root, by the directory that `/var/run` leads to everywhere.
fn without_link(path: &Path) -> PathBuf {
    match path.strip_prefix("/var/run") {
        Ok(below) => Path::new("run").join(below),
        Err(_) => path.strip_prefix("/").unwrap_or(path).to_owned(),
    }
}

fn names(directory: OwnedFd) -> Vec<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    let entries = Dir::new(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
    names.filter(|name| name != "." && name != "..").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_the_node_lead_to_the_nodes_files() {
        let dir = tempfile::tempdir().unwrap();
        let proc_dir = dir.path().join("proc");
        let root = dir.path().join("root");
        std::fs::create_dir_all(proc_dir.join("1")).unwrap();
        std::fs::create_dir_all(root.join("run/netns")).unwrap();
        std::fs::create_dir_all(root.join("var")).unwrap();
        symlink(&root, proc_dir.join("1/root")).unwrap();
        symlink("/run", root.join("var/run")).unwrap();
        std::fs::write(root.join("run/netns/cni-1"), "").unwrap();
        let node = NodeRoot::open(&proc_dir).unwrap();
        assert!(node.file(Path::new("/var/run/netns/cni-1"), READ).is_ok());
        let found = names(node.file(Path::new("/var/run/netns"), READ | OFlags::DIRECTORY).unwrap());
        assert_eq!(found, ["cni-1"]);
        assert!(node.netns(Path::new("/var/run/netns/cni-1")).is_none(), "a file is no namespace");
        let has = |path: &str| node.has(Path::new(path));
        assert_eq!((has("/var/run/netns/cni-1"), has("/var/run/netns/cni-2")), (Some(true), Some(false)));
        assert_eq!(without_link(Path::new("/var/run/netns/cni-1")), Path::new("run/netns/cni-1"));
        assert!(NodeRoot::open(dir.path()).is_none());
    }
}
