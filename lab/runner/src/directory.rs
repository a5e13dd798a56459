// SPDX-License-Identifier: Apache-2.0
//! A report's directory, by its descriptor. Names are resolved beneath it without symbolic links, so that another writer of the directory leads nobody
//! elsewhere. A file is written whole, or the former one stays.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Largest file of a report that is read.
pub(crate) const LARGEST: u64 = 256 << 20;

const UNLINKED: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A fresh file; another one of its name is an error.
const FRESH: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory. Links of the path itself are those of the user.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = path.canonicalize().and_then(|path| {
            let fd = rustix::fs::openat2(CWD, &path, DIRECTORY, Mode::empty(), UNLINKED)?;
            Ok(Self { fd, path })
        });
        opened.with_context(|| format!("cannot open directory {}", path.display()))
    }

    /// Content of a regular file.
    pub(crate) fn read(&self, name: &str, largest: u64) -> anyhow::Result<Vec<u8>> {
        self.content(name, largest).with_context(|| format!("cannot read {}", self.path.join(name).display()))
    }

    fn content(&self, name: &str, largest: u64) -> io::Result<Vec<u8>> {
        // Opening a FIFO does not wait for a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | UNLINKED;
        let fd =
            rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), resolve).map_err(
                |errno| match errno {
                    Errno::LOOP => io::Error::other("symbolic links are not followed"),
                    Errno::XDEV => io::Error::other("it lies outside of the directory"),
                    other => other.into(),
                },
            )?;
        if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(fd).take(largest + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > largest {
            return Err(io::Error::other(format!("larger than {largest} bytes")));
        }
        Ok(bytes)
    }

    /// Replaces a file, and makes the directories above it.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.replace(name, content)
            .with_context(|| format!("cannot write {}", self.path.join(name).display()))
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (above, name) = name.rsplit_once('/').unwrap_or(("", name));
        let mut directory = self.fd.try_clone()?;
        for part in above.split('/').filter(|part| !part.is_empty()) {
            directory = below(&directory, part)?;
        }
        let fresh = format!(".{name}.part");
        let written = write_fresh(&directory, &fresh, content)
            .and_then(|()| Ok(rustix::fs::renameat(&directory, &fresh, &directory, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&directory, &fresh, AtFlags::empty());
        }
        written.and_then(|()| Ok(rustix::fs::fsync(&directory)?))
    }
}

/// Writes a file of the directory at a path.
pub(crate) fn write(dir: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    Directory::open(dir)?.write(name, content)
}

/// Makes a directory where there is none, and opens it.
fn below(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755)) {
        Err(errno) if errno != Errno::EXIST => return Err(errno.into()),
        _ => {}
    }
    let resolve = ResolveFlags::BENEATH | UNLINKED;
    Ok(rustix::fs::openat2(directory, name, DIRECTORY, Mode::empty(), resolve)?)
}

/// Writes a file that another process cannot have made, and has it on the disk.
fn write_fresh(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(errno) if errno != Errno::NOENT => return Err(errno.into()),
        _ => {}
    }
    let mut file = File::from(rustix::fs::openat(directory, name, FRESH, Mode::from_raw_mode(0o644))?);
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory, and a file outside of it.
    fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let all = tempfile::tempdir().unwrap();
        let (inside, outside) = (all.path().join("report"), all.path().join("shadow"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        (all, inside, outside)
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_stays() {
        let (_all, inside, _) = place();
        let directory = Directory::open(&inside).unwrap();
        directory.write("report.json", b"one").unwrap();
        directory.write("report.json", b"two").unwrap();
        directory.write("evidence/g/a/rules.txt", b"rules").unwrap();
        assert_eq!(directory.read("report.json", LARGEST).unwrap(), b"two");
        assert_eq!(directory.read("evidence/g/a/rules.txt", 5).unwrap(), b"rules");
        assert!(directory.read("report.json", 2).is_err(), "it is larger");
        let names = std::fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.count(), 2, "no fresh file is left");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_former_one() {
        let (_all, inside, _) = place();
        let directory = Directory::open(&inside).unwrap();
        directory.write("report.json", b"one").unwrap();
        // The size of a file is limited as a disk is: of this thread's process, so in a child.
        let limited = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "directory::tests::writes_on_a_small_disk", "--ignored", "--nocapture"])
            .env("CNILAB_TEST_DIRECTORY", &inside)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&limited.stdout).into_owned();
        assert!(limited.status.success() && told.contains("1 passed"), "{told}");
        assert_eq!(directory.read("report.json", LARGEST).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(&inside).unwrap().count(), 1, "no fresh file is left");
    }

    #[test]
    #[ignore = "the child of another test, whose files have at most 4 KiB"]
    fn writes_on_a_small_disk() {
        use nix::sys::resource::{Resource, setrlimit};
        use nix::sys::signal::{SigSet, Signal};
        setrlimit(Resource::RLIMIT_FSIZE, 4096, 4096).unwrap();
        // A write beyond the limit is an error, and its signal stays away.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGXFSZ);
        signals.thread_block().unwrap();
        let inside = PathBuf::from(std::env::var_os("CNILAB_TEST_DIRECTORY").unwrap());
        let directory = Directory::open(&inside).unwrap();
        let refused = format!("{:#}", directory.write("report.json", &[b'x'; 8192]).unwrap_err());
        assert!(refused.contains("report.json: File too large"), "{refused}");
    }

    #[test]
    fn what_links_lead_to_is_neither_read_nor_written() {
        let (_all, inside, outside) = place();
        let directory = Directory::open(&inside).unwrap();
        symlink(&outside, inside.join("objects.json")).unwrap();
        symlink(outside.parent().unwrap(), inside.join("evidence")).unwrap();
        for name in ["objects.json", "evidence/shadow", "../shadow"] {
            let refused = format!("{:#}", directory.read(name, LARGEST).unwrap_err());
            assert!(refused.contains("links are not followed") || refused.contains("outside"), "{refused}");
        }
        directory.write("objects.json", b"ours").unwrap();
        assert!(directory.write("evidence/shadow", b"ours").is_err());
        assert!(directory.write("../shadow", b"ours").is_err());
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
        assert_eq!(directory.read("objects.json", LARGEST).unwrap(), b"ours", "the link was replaced");
    }

    #[test]
    fn only_regular_files_are_read() {
        let (_all, inside, _) = place();
        let directory = Directory::open(&inside).unwrap();
        nix::unistd::mkfifo(&inside.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = format!("{:#}", directory.read("fifo", LARGEST).unwrap_err());
        assert!(refused.contains("not a regular file"), "{refused}");
    }
}
