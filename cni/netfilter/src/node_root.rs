// SPDX-License-Identifier: Apache-2.0
//! The node's file system by way of `/proc/1/root` and of the runtime's own root: mounts that are made later are there at once, whether the
//! node shares them with containers or not. A mount of their directory follows them only where the node shares it (systemd does; the nodes of
//! k3d and Docker Desktop do not, and runtimes refuse to start a container that asks for it there).

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::netns::Netns;

/// Opening never blocks the caller, whatever the file turns out to be.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Depth of the search: the agent, what started its container, and whatever started that.
const GENERATIONS: usize = 8;

/// Attempts to open a file while others mount and rename: beside one that renames all the time, one in twelve fails.
const TRIES: usize = 128;

/// The node's file system, as its first process sees it and as the container runtime does.
#[derive(Debug)]
pub struct NodeRoot {
    roots: Vec<OwnedFd>,
}

impl NodeRoot {
    /// Opens it; `None` where the node's processes are not seen, or `SYS_PTRACE` is lacking.
    ///
    /// A runtime may have a mount namespace of its own (OpenShift hides its mounts from systemd that way), and then the first process does not
    /// see the namespaces that the runtime made. What started our container, conmon or a shim, shares the runtime's.
    #[must_use]
    pub fn open(proc_dir: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut known = vec![mounts_of(&proc_dir.join("self"))];
        let above = ancestors(proc_dir).filter(|pid| {
            let mounts = mounts_of(&proc_dir.join(pid.to_string()));
            let is_new = mounts != mounts_of(&proc_dir.join("1")) && !known.contains(&mounts);
            known.push(mounts);
            is_new
        });
        let processes = std::iter::once(1).chain(above);
        let roots: Vec<_> = processes
            .filter_map(|pid| openat(CWD, proc_dir.join(format!("{pid}/root")), flags, Mode::empty()).ok())
            .collect();
        (!roots.is_empty()).then_some(Self { roots })
    }

    /// The namespace at a path of the node, if there is one.
    #[must_use]
    pub fn netns(&self, path: &Path) -> Option<Netns> {
        self.roots.iter().find_map(|root| netns(&open_in(root, path, READ).ok()?))
    }

    /// True if the node has anything at a path, in any of its roots; `None` where a root does not tell.
    #[must_use]
    pub fn has(&self, path: &Path) -> Option<bool> {
        any(self.roots.iter().map(|root| open_in(root, path, OFlags::PATH | OFlags::CLOEXEC)))
    }

    /// Device and inode of the directory at a path, in each root that has one.
    #[must_use]
    pub fn directories(&self, path: &Path) -> Vec<(u64, u64)> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self.roots.iter().filter_map(|root| open_in(root, path, flags).ok());
        opened
            .filter_map(|directory| rustix::fs::fstat(directory).ok())
            .map(|is| (is.st_dev, is.st_ino))
            .collect()
    }

    /// All namespaces in a directory of the node.
    pub fn netns_in(&self, directory: &Path) -> impl Iterator<Item = Netns> {
        let directory = directory.to_owned();
        self.roots.iter().flat_map(move |root| {
            let names = open_in(root, &directory, READ | OFlags::DIRECTORY).map(names).unwrap_or_default();
            let directory = directory.clone();
            names.into_iter().filter_map(move |name| netns(&open_in(root, &directory.join(name), READ).ok()?))
        })
    }
}

/// `Some(false)` only where every root says so.
fn any(has: impl Iterator<Item = Result<OwnedFd, Errno>>) -> Option<bool> {
    let mut present = Some(false);
    for one in has {
        match one {
            Ok(_) => return Some(true),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => present = None,
        }
    }
    present
}

/// A namespace by its open file.
fn netns(file: &OwnedFd) -> Option<Netns> {
    // Once more by its number, as there is no other way to open by a path below a root.
    Netns::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Opens a path below a root. Absolute links, as `/var/run` is one on some nodes, are the node's.
fn open_in(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = || openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    // The kernel cannot tell that `..`, of which `/var/run` is a link on many nodes, stays below the root where anything on the machine is
    // mounted or renamed meanwhile, and asks for another try.
    let opened = std::iter::repeat_with(open).take(TRIES).find(|opened| !matches!(opened, Err(Errno::AGAIN)));
    match opened.unwrap_or(Err(Errno::AGAIN)) {
        // Linux before 5.6, or a filter of system calls that is older than that one.
        Err(Errno::NOSYS | Errno::PERM) => openat(root, without_link(path), flags, Mode::empty()),
        opened => opened,
    }
}

/// The mount namespace of a process.
fn mounts_of(process: &Path) -> Option<(u64, u64)> {
    let about = std::fs::metadata(process.join("ns/mnt")).ok()?;
    Some((about.dev(), about.ino()))
}

/// The processes above this one, nearest first, without the node's first.
fn ancestors(proc_dir: &Path) -> impl Iterator<Item = u32> {
    let parent = |process: &Path| {
        let stat = std::fs::read_to_string(process.join("stat")).ok()?;
        parent(&stat).filter(|pid| *pid > 1)
    };
    std::iter::successors(parent(&proc_dir.join("self")), move |pid| parent(&proc_dir.join(pid.to_string())))
        .take(GENERATIONS)
}

/// Field 4 of `stat`. The second is a name in parentheses that may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    /// A node: a `/proc`, and roots of processes.
    struct Node(tempfile::TempDir);

    impl Node {
        fn proc(&self) -> PathBuf {
            self.0.path().join("proc")
        }

        /// A node with these processes: name, parent, and the directory that is its root and its mount namespace.
        fn with(processes: &[(&str, u32, &str)]) -> Self {
            let node = Self(tempfile::tempdir().unwrap());
            for &(name, parent, mounts) in processes {
                node.process(name, parent, mounts);
            }
            node
        }

        fn root(&self, mounts: &str) -> PathBuf {
            self.0.path().join(mounts)
        }

        fn process(&self, name: &str, parent: u32, mounts: &str) {
            let (process, root) = (self.proc().join(name), self.root(mounts));
            std::fs::create_dir_all(process.join("ns")).unwrap();
            std::fs::create_dir_all(root.join("run/netns")).unwrap();
            std::fs::create_dir_all(root.join("var")).unwrap();
            symlink(&root, process.join("ns/mnt")).unwrap();
            symlink(&root, process.join("root")).unwrap();
            let _there = symlink("/run", root.join("var/run"));
            std::fs::write(process.join("stat"), format!("9 (a) b) S {parent} 9 9")).unwrap();
        }

        /// The names in the directory of namespaces, of each root.
        fn seen(&self) -> Vec<Vec<OsString>> {
            let roots = NodeRoot::open(&self.proc()).map(|node| node.roots).unwrap_or_default();
            let netns = Path::new("/var/run/netns");
            roots.iter().map(|root| names(open_in(root, netns, READ | OFlags::DIRECTORY).unwrap())).collect()
        }
    }

    #[test]
    fn links_of_the_node_lead_to_the_nodes_files() {
        let node = Node::with(&[("1", 0, "node")]);
        std::fs::write(node.root("node").join("run/netns/cni-1"), "").unwrap();
        assert_eq!(node.seen(), [["cni-1"]]);
        let opened = NodeRoot::open(&node.proc()).unwrap();
        assert!(opened.netns(Path::new("/var/run/netns/cni-1")).is_none(), "a file is no namespace");
        assert_eq!(opened.netns_in(Path::new("/var/run/netns")).count(), 0);
        assert_eq!(without_link(Path::new("/var/run/netns/cni-1")), Path::new("run/netns/cni-1"));
        assert!(NodeRoot::open(node.0.path()).is_none());
    }

    #[test]
    fn a_directory_behind_a_link_is_the_one_that_it_leads_to() {
        let node = Node::with(&[("1", 0, "node")]);
        let root = node.root("node");
        std::fs::create_dir_all(root.join("data/a/bin")).unwrap();
        std::fs::create_dir_all(root.join("data/b/bin")).unwrap();
        // As k3s makes its own.
        symlink("/data/a", root.join("data/current")).unwrap();
        let opened = NodeRoot::open(&node.proc()).unwrap();
        let is = |path: &str| {
            let about = std::fs::metadata(root.join(path)).unwrap();
            vec![(about.dev(), about.ino())]
        };
        let current = || opened.directories(Path::new("/data/current/bin"));
        assert_eq!(current(), is("data/a/bin"));
        std::fs::remove_file(root.join("data/current")).unwrap();
        assert_eq!(current(), []);
        symlink("/data/b", root.join("data/current")).unwrap();
        assert_eq!(current(), is("data/b/bin"));
    }

    #[test]
    fn a_rename_meanwhile_hides_nothing() {
        let node = Node::with(&[("1", 0, "node")]);
        let root = node.root("node");
        std::fs::remove_file(root.join("var/run")).unwrap();
        symlink("../run", root.join("var/run")).unwrap();
        let opened = NodeRoot::open(&node.proc()).unwrap();
        let (one, other) = (node.0.path().join("one"), node.0.path().join("other"));
        std::fs::write(&one, "").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    std::fs::rename(&one, &other).and_then(|()| std::fs::rename(&other, &one)).unwrap();
                }
            });
            let there =
                (0..100_000).filter(|_| opened.has(Path::new("/var/run/netns")) == Some(true)).count();
            is_over.store(true, Relaxed);
            assert_eq!(there, 100_000);
        });
    }

    #[test]
    fn a_runtime_with_mounts_of_its_own_is_looked_at_as_well() {
        let node = Node::with(&[
            ("1", 0, "node"),
            ("self", 40, "container"),
            ("40", 30, "container"),
            ("30", 20, "runtime"),
            ("20", 1, "runtime"),
        ]);
        std::fs::write(node.root("runtime").join("run/netns/cni-1"), "").unwrap();
        assert_eq!(node.seen(), [vec![], vec![OsString::from("cni-1")]]);
    }

    #[test]
    fn what_any_of_the_roots_has_is_there() {
        let node = Node::with(&[("1", 0, "node"), ("self", 30, "container"), ("30", 1, "runtime")]);
        std::fs::write(node.root("node").join("run/of-node"), "").unwrap();
        std::fs::write(node.root("runtime").join("run/of-runtime"), "").unwrap();
        symlink("loop", node.root("node").join("run/loop")).unwrap();
        let opened = NodeRoot::open(&node.proc()).unwrap();
        for (path, there) in [
            ("/var/run/of-node", Some(true)),
            ("/var/run/of-runtime", Some(true)),
            ("/run/of-nobody", Some(false)),
            ("/run/of-node/below", Some(false)),
            ("/run/loop", None),
        ] {
            assert_eq!(opened.has(Path::new(path)), there, "{path}");
        }
    }

    #[test]
    fn a_runtime_with_the_nodes_mounts_is_looked_at_once() {
        let node = Node::with(&[("1", 0, "node"), ("self", 30, "container"), ("30", 1, "node")]);
        assert_eq!(node.seen().len(), 1);
    }
}
