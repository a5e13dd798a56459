// SPDX-License-Identifier: Apache-2.0
//! The node's root directory. Paths of orders come from features and from the product under test: each is resolved beneath the root (`openat2(2)`,
//! `RESOLVE_IN_ROOT`), so that neither `..` nor a link leads out of the node.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use cluster::hand::{Work, Writing};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

/// The lock of the iptables tools, which have its path compiled in, is the machine's.
const XTABLES_LOCK: &str = "/run/xtables.lock";
/// Tries of a lookup that something on the machine was mounted or renamed during (`EAGAIN`).
const TRIES: usize = 64;

/// The root directory of the node.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

/// A file or directory that is held open, and a path to it or to an entry of it that this process alone can use.
#[derive(Debug)]
pub(crate) struct Place {
    _held: OwnedFd,
    pub(crate) path: PathBuf,
}

/// Where the lookup of a path begins, the rest of it, and whether the lookup may follow the kernel's own links.
struct Base<'a> {
    root: PathBuf,
    rest: &'a Path,
    is_link_of_kernel: bool,
}

impl Root {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Replaces the paths of an order by such that lead beneath the root as long as the places are held.
    pub(crate) fn hold(&self, work: &mut Work) -> io::Result<Vec<Place>> {
        let follows = follows_links(work);
        let mut held = Vec::new();
        for path in work.paths_mut() {
            let place = if follows { self.target(path)? } else { self.entry(path)? };
            path.clone_from(&place.path);
            held.push(place);
        }
        Ok(held)
    }

    /// The target of a path: a link at its end is followed. Where nothing is, the entry that would be made.
    pub(crate) fn target(&self, path: &Path) -> io::Result<Place> {
        match self.open(path) {
            Ok(held) => Ok(Place { path: of_descriptor(&held), _held: held }),
            Err(Errno::NOENT) => {
                let entry = self.entry(path)?;
                // Whoever wrote through it would write where it leads to outside of the root.
                if entry.path.is_symlink() { Err(Errno::NOENT.into()) } else { Ok(entry) }
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The entry of a path itself.
    fn entry(&self, path: &Path) -> io::Result<Place> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return self.target(path);
        };
        let held = self.open(directory)?;
        Ok(Place { path: of_descriptor(&held).join(name), _held: held })
    }

    /// Makes a directory and those above it.
    pub(crate) fn make_directory(&self, path: &Path) -> io::Result<()> {
        let mut above: Vec<_> = path.ancestors().filter(|path| path.file_name().is_some()).collect();
        above.reverse();
        for path in above {
            if self.open(path).is_ok() {
                continue;
            }
            let made = mkdirat(CWD, &self.entry(path)?.path, Mode::from_raw_mode(0o755));
            if let Err(errno) = made
                && errno != Errno::EXIST
            {
                return Err(errno.into());
            }
        }
        self.open(path).map(drop).map_err(io::Error::from)
    }

    /// Opens a path without the right to read it.
    pub(crate) fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let base = self.base(path)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = openat(CWD, &base.root, flags | OFlags::DIRECTORY, Mode::empty())?;
        if base.is_link_of_kernel {
            return openat(root, base.rest, flags, Mode::empty());
        }
        let rest = if base.rest.as_os_str().is_empty() { Path::new(".") } else { base.rest };
        let open = || openat2(&root, rest, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let opened =
            std::iter::repeat_with(open).take(TRIES).find(|opened| !matches!(opened, Err(Errno::AGAIN)));
        opened.unwrap_or(Err(Errno::AGAIN))
    }

    fn base<'a>(&self, path: &'a Path) -> Result<Base<'a>, Errno> {
        let of = |root: &Path, rest| Base { root: root.to_owned(), rest, is_link_of_kernel: false };
        if path == Path::new(XTABLES_LOCK) {
            return Ok(of(Path::new("/"), path));
        }
        if let Ok(rest) = path.strip_prefix("/proc") {
            return of_proc(rest);
        }
        match path.strip_prefix("/var/run") {
            Ok(rest) => Ok(of(&self.0.join("run"), rest)),
            Err(_) => Ok(of(&self.0, path.strip_prefix("/").unwrap_or(path))),
        }
    }
}

/// Below `/proc`: the root of a process that has one of its own, its namespaces, its program, or a file of the kernel.
fn of_proc(rest: &Path) -> Result<Base<'_>, Errno> {
    let proc = Path::new("/proc");
    let mut parts = rest.components();
    let number = parts.next().and_then(|part| part.as_os_str().to_str()?.parse::<u32>().ok());
    let (Some(number), Some(Component::Normal(kind))) = (number, parts.next()) else {
        return Ok(Base { root: proc.to_owned(), rest, is_link_of_kernel: false });
    };
    let process = proc.join(number.to_string());
    match kind.to_str() {
        Some("root") => {
            let root = process.join("root");
            if is_own(&root) {
                // The machine's, and no node's.
                return Err(Errno::XDEV);
            }
            Ok(Base { root, rest: parts.as_path(), is_link_of_kernel: false })
        }
        Some("ns") if parts.clone().count() == 1 => {
            Ok(Base { root: process.join("ns"), rest: parts.as_path(), is_link_of_kernel: true })
        }
        // A link of the kernel's own to what runs: nothing on the node can make it lead elsewhere.
        Some("exe") if parts.clone().count() == 0 => {
            Ok(Base { root: process, rest: Path::new("exe"), is_link_of_kernel: true })
        }
        _ => Ok(Base { root: proc.to_owned(), rest, is_link_of_kernel: false }),
    }
}

/// True for the directory that the hand itself has as its root.
fn is_own(root: &Path) -> bool {
    let of = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    of(root).is_some_and(|found| Some(found) == of(Path::new("/")))
}

pub(crate) fn of_descriptor(held: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(held.as_raw_fd().to_string())
}

/// Content of what a path leads to.
pub(crate) fn read(root: &Root, path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::Read::read_to_end(&mut File::open(root.target(path)?.path)?, &mut content)?;
    Ok(content)
}

/// True if an order is about the target of a link, and not about the link.
fn follows_links(work: &Work) -> bool {
    !matches!(
        work,
        Work::Look { .. }
            | Work::Remove { .. }
            | Work::Rename { .. }
            | Work::Link { .. }
            | Work::Ask { .. }
            | Work::Write { how: Writing::Whole { .. }, .. }
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Node {
        machine: tempfile::TempDir,
        root: Root,
    }

    /// A machine with a secret, and a node in a directory of it.
    fn node() -> Node {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path().join("node");
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(machine.path().join("secret"), "of the machine").unwrap();
        fs::write(root.join("etc/file"), "of the node").unwrap();
        Node { machine, root: Root::new(root) }
    }

    impl Node {
        fn link(&self, name: &str, target: &Path) {
            symlink(target, self.machine.path().join("node/etc").join(name)).unwrap();
        }

        fn read(&self, path: &str) -> Option<String> {
            let text = read(&self.root, Path::new(path)).ok()?;
            Some(String::from_utf8(text).unwrap())
        }

        fn write(&self, path: &str) -> bool {
            let write = || fs::write(self.root.target(Path::new(path))?.path, "escaped");
            write().is_ok()
        }
    }

    #[test]
    fn neither_dots_nor_links_read_the_machine() {
        let node = node();
        let secret = node.machine.path().join("secret");
        node.link("absolute", &secret);
        node.link("relative", Path::new("../../secret"));
        node.link("inside", Path::new("/etc/file"));
        assert_eq!(node.read("/etc/file").as_deref(), Some("of the node"));
        assert_eq!(node.read("/etc/inside").as_deref(), Some("of the node"));
        for path in ["/etc/absolute", "/etc/relative", "/../secret", "/etc/../../secret"] {
            assert_eq!(node.read(path), None, "{path}");
        }
        let own = format!("/proc/{}/root{}", std::process::id(), secret.display());
        assert_eq!(node.read(&own), None, "{own}");
        let magic = format!("/proc/{}/cwd/Cargo.toml", std::process::id());
        assert_eq!(node.read(&magic), None, "{magic}");
        assert!(node.read("/proc/self/status").is_some());
    }

    #[test]
    fn neither_dots_nor_links_write_the_machine() {
        let node = node();
        let outside = node.machine.path().join("outside");
        node.link("absolute", &outside);
        node.link("relative", Path::new("../../outside"));
        assert!(!node.write("/etc/absolute") && !node.write("/etc/relative"));
        assert!(node.write("/../outside"), "a `..` of the root is the root");
        assert!(!outside.exists());
        assert!(node.machine.path().join("node/outside").exists());
        node.root.make_directory(Path::new("/../a/b")).unwrap();
        assert!(node.machine.path().join("node/a/b").is_dir());
    }

    #[test]
    fn an_entry_is_the_link_itself() {
        let node = node();
        node.link("link", Path::new("file"));
        let place = node.root.entry(Path::new("/etc/link")).unwrap();
        assert!(place.path.is_symlink());
        fs::remove_file(place.path).unwrap();
        assert_eq!(node.read("/etc/file").as_deref(), Some("of the node"));
    }
}
