// SPDX-License-Identifier: Apache-2.0
//! Files that are whole or not there: the one atomic write, comparing contents, and temporaries that a killed process left.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub(crate) use crate::file_error::remedy;
pub use crate::file_error::{Doing, FileError};
pub use swap::{Replaced, remove_as_read, replace};

mod swap;
pub mod version;

/// Separates a file's name from the random part of its temporary's.
const TEMPORARY: &str = ".tmp.";

/// Puts `content` in the place of `path`: readers see the old file or the new one, whole, also after a crash of the machine. A symbolic link is
/// replaced, and what it leads to stays as it is. From a file the kernel copies (`copy_file_range`), where it can.
///
/// # Errors
/// The temporary is gone then, and the old file is as it was.
pub fn atomic_write(path: &Path, content: &mut impl Read, mode: u32) -> Result<(), FileError> {
    let failed = |cause| Doing::Write.failed(path, cause);
    let temporary = temporary_of(path).map_err(failed)?;
    let written = fill(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(cause) = written {
        // It may not even have been made. What cannot be removed now is found by the next run.
        let _ = fs::remove_file(&temporary);
        return Err(failed(cause));
    }
    sync_directory(path).map_err(failed)
}

/// Writes and syncs the temporary.
fn fill(temporary: &Path, content: &mut impl Read, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    // The umask has no say in it, and no reader sees the content under a wider mode.
    file.set_permissions(Permissions::from_mode(mode))?;
    io::copy(content, &mut file)?;
    file.flush()?;
    file.sync_all()
}

/// Makes a directory, with those above it. One that is there is right.
///
/// # Errors
/// It is not there.
pub fn make_directory(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(|cause| Doing::Make.failed(path, cause))
}

/// Removes a file durably; one that is not there is none to remove.
///
/// # Errors
/// It is still there.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(path).map_err(|cause| Doing::Remove.failed(path, cause)),
        Err(cause) if is_absent(&cause) => Ok(()),
        Err(cause) => Err(Doing::Remove.failed(path, cause)),
    }
}

/// True if the file, or a directory above it, does not exist.
#[must_use]
pub fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Syncs the directory, so that a rename in it is durable.
fn sync_directory(of: &Path) -> io::Result<()> {
    File::open(directory(of))?.sync_all()
}

fn directory(of: &Path) -> &Path {
    match of.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Where a path leads if it is a symbolic link, even to nothing; else the path.
///
/// # Errors
/// It cannot be followed.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    match (link, fs::canonicalize(path)) {
        (false, _) => Ok(path.to_owned()),
        (true, Ok(target)) => Ok(target),
        (true, Err(cause)) if is_absent(&cause) => Ok(directory(path).join(fs::read_link(path)?)),
        (true, Err(cause)) => Err(cause),
    }
}

fn temporary_of(target: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let mut name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!("{TEMPORARY}{:016x}", u64::from_ne_bytes(random)));
    Ok(target.with_file_name(name))
}

/// Removes what writes of `name` left in `directory` when they were killed: ours and upstream's (`<name>.tmp.<digits>`). Nobody else
/// writes these temporaries at the same time. What somebody else wrote into the file itself goes back there.
///
/// # Errors
/// Those of the directory and of the first that could not be removed.
pub fn remove_stale_temporaries(directory: &Path, names: &dyn Fn(&str) -> bool) -> Result<usize, FileError> {
    let listed = fs::read_dir(directory).map_err(|cause| Doing::List.failed(directory, cause))?;
    let mut removed = 0;
    for entry in listed {
        let entry = entry.map_err(|cause| Doing::List.failed(directory, cause))?;
        let is_written = entry.file_name().to_str().and_then(written_name).is_some_and(names);
        // Nobody writes a directory under such a name, and one is no file to remove.
        if is_written && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            swap::recover(&entry.path())?;
            remove(&entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Final name of a temporary; `None` for other names.
#[must_use]
pub fn written_name(temporary: &str) -> Option<&str> {
    let (name, random) = temporary.rsplit_once(TEMPORARY)?;
    (!random.is_empty() && random.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

/// True if both files have the same content; a missing file has none.
///
/// # Errors
/// One of them cannot be read.
pub fn same_content(one: &Path, other: &Path) -> Result<bool, FileError> {
    let open = |path: &Path| match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if is_absent(&cause) => Ok(None),
        Err(cause) => Err(Doing::Read.failed(path, cause)),
    };
    let (Some(mut left), Some(mut right)) = (open(one)?, open(other)?) else { return Ok(false) };
    let (mut here, mut there) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = fill_buffer(&mut left, &mut here).map_err(|cause| Doing::Read.failed(one, cause))?;
        let also = fill_buffer(&mut right, &mut there).map_err(|cause| Doing::Read.failed(other, cause))?;
        if here.get(..read) != there.get(..also) {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or EOF.
fn fill_buffer(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

/// The permission bits of a file.
///
/// # Errors
/// It cannot be looked at.
pub fn mode_of(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
}

/// That of a file; `None` where there is none, or a link to one.
#[must_use]
pub fn mode_of_own(path: &Path) -> Option<u32> {
    let found = fs::symlink_metadata(path).ok()?;
    found.is_file().then(|| found.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_leaves_the_file_with_its_mode_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        atomic_write(&path, &mut &b"one"[..], 0o666).unwrap();
        assert_eq!(mode_of(&path).unwrap(), 0o666, "whatever the umask is");
        let before = File::open(&path).unwrap();
        atomic_write(&path, &mut &b"two"[..], 0o600).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode_of(&path).unwrap()), (b"two".to_vec(), 0o600));
        assert_eq!(
            io::read_to_string(before).unwrap(),
            "one",
            "who had it open still has the old one, whole"
        );
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(Errno::NOSPC.into())
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "old").unwrap();
        let error = atomic_write(&path, &mut Broken, 0o600).unwrap_err().to_string();
        assert!(error.starts_with(&format!("failed to write {}: ", path.display())), "{error}");
        assert!(error.ends_with("free space on the node's disk"), "{error}");
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), names(directory.path())),
            ("old", vec!["a".to_owned()])
        );
        let missing =
            atomic_write(&directory.path().join("no/a"), &mut &b""[..], 0o600).unwrap_err().to_string();
        assert!(missing.contains("mounted"), "{missing}");
    }

    #[test]
    fn a_symbolic_link_is_replaced_unless_what_it_leads_to_is_meant() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("d/target"));
        fs::create_dir(directory.path().join("d")).unwrap();
        symlink("d/target", &link).unwrap();
        for text in ["made", "replaced"] {
            atomic_write(&behind_links(&link).unwrap(), &mut text.as_bytes(), 0o600).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
        atomic_write(&link, &mut "own".as_bytes(), 0o600).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), "replaced");
        assert_eq!(names(directory.path()), ["d", "link"]);
        assert_eq!(names(&directory.path().join("d")), ["target"]);
    }

    #[test]
    fn stale_temporaries_go_and_nothing_else_does() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.tmp.0123456789abcdef", "a.tmp.77", "a.tmp.", "a.tmp.x", "b.tmp.77", "a", "a.tmp"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(remove_stale_temporaries(directory.path(), &|name| name == "a").unwrap(), 2);
        assert_eq!(names(directory.path()), ["a", "a.tmp", "a.tmp.", "a.tmp.x", "b.tmp.77"]);
    }

    #[test]
    fn contents_are_compared_to_the_last_byte() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        let long = vec![7; (1 << 16) + 1];
        for (left, right, same) in [("", "", true), ("a", "a", true), ("a", "ab", false), ("b", "a", false)] {
            fs::write(&one, [long.as_slice(), left.as_bytes()].concat()).unwrap();
            fs::write(&other, [long.as_slice(), right.as_bytes()].concat()).unwrap();
            assert_eq!(same_content(&one, &other).unwrap(), same, "{left:?} {right:?}");
        }
        assert!(!same_content(&one, &directory.path().join("none")).unwrap());
    }
}
