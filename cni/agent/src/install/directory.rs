// SPDX-License-Identifier: Apache-2.0
//! The configurations of a directory, read for a decision and changed as it says.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;
use serde::de::IgnoredAny;

use crate::conflist::entry;
use crate::conflist::plan::{FileMode, Step};
use crate::conflist::scan::{ConfigFormat, Content, DirectorySnapshot};
use crate::files::{self, Doing, FileError, Replaced};

/// No configuration of a network is anywhere near this.
const LARGEST: u64 = 4 << 20;

/// Configuration of Multus' daemon, where it is on the node and not in the daemon's pod alone.
const MULTUS_DAEMON: &str = "multus.d/daemon-config.json";

/// Snapshot of the directory.
///
/// # Errors
/// The directory cannot be listed. A file that cannot be read is no error: the snapshot says so.
pub fn read(directory: &Path) -> Result<DirectorySnapshot, FileError> {
    let now = read_files(directory, |name| ConfigFormat::of(name).is_some())?;
    let multus_daemon = content(&directory.join(MULTUS_DAEMON)).ok().flatten();
    Ok(DirectorySnapshot { multus_daemon, ..now })
}

/// True if an entry of ours in the directory makes STATUS depend on the agent.
#[must_use]
pub fn is_gated(directory: &Path) -> bool {
    read(directory).is_ok_and(|now| entry::is_gated(&now))
}

/// Time since a file or the directory changed, whichever is less; `None` if that cannot be told. A clock that was set back says zero.
#[must_use]
pub fn unchanged(directory: &Path, name: &str) -> Option<Duration> {
    let ago = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        let changed =
            Duration::new(u64::try_from(found.ctime()).ok()?, u32::try_from(found.ctime_nsec()).ok()?);
        Some((UNIX_EPOCH + changed).elapsed().unwrap_or_default())
    };
    Some(ago(directory)?.min(ago(&directory.join(name))?))
}

/// Ending of files that Cilium moved aside.
const SET_ASIDE: &str = ".cilium_bak";

/// Files that Cilium moved aside, to be the only one that runtimes read. Whoever moves it back has it as it was then.
///
/// # Errors
/// Those of [`read`].
pub fn set_aside(directory: &Path) -> Result<DirectorySnapshot, FileError> {
    read_files(directory, |name| name.ends_with(SET_ASIDE))
}

fn read_files(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<DirectorySnapshot, FileError> {
    let failed = |cause| Doing::List.failed(directory, cause);
    let mut now = DirectorySnapshot::default();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = match entry.file_name().into_string() {
            Ok(name) if wanted(&name) => name,
            // Runtimes read it, and it may be the first one.
            Err(name) if wanted(&name.to_string_lossy()) => {
                let why = io::Error::new(io::ErrorKind::InvalidData, "its name is no UTF-8; rename it");
                let denied = Content::Denied(Doing::Read.failed(&entry.path(), why).to_string());
                now.files.insert(name.to_string_lossy().into_owned(), denied);
                continue;
            }
            _ => continue,
        };
        if let Ok(mode) = files::mode_of(&entry.path()) {
            now.modes.insert(name.clone(), mode);
        }
        let path = entry.path();
        match content(&path) {
            Ok(Some(text)) => now.files.insert(name, Content::Text(text)),
            Ok(None) => None,
            Err(cause) if files::is_absent(&cause) && !path.is_symlink() => None,
            Err(cause) => now.files.insert(name, unread(&path, cause)),
        };
    }
    Ok(now)
}

/// Content of a file that cannot be read here. Runtimes may be able to, unless it is a link that nobody can follow.
fn unread(path: &Path, cause: io::Error) -> Content {
    let cause = match leads_out(path).filter(|_| files::is_absent(&cause)) {
        Some(target) => lost(&target),
        None if is_dead_link(&cause) => return Content::Unreadable(cause.to_string()),
        None => cause,
    };
    Content::Denied(Doing::Read.failed(path, cause).to_string())
}

/// True for the errors of a link to nothing, or to itself.
fn is_dead_link(cause: &io::Error) -> bool {
    files::is_absent(cause) || Errno::from_io_error(cause) == Some(Errno::LOOP)
}

/// Where a link leads, if that is not below its own directory: runtimes may see what this process does not.
fn leads_out(link: &Path) -> Option<PathBuf> {
    let target = fs::read_link(link).ok()?;
    let out = target.is_absolute() || target.components().any(|part| part == Component::ParentDir);
    out.then_some(target)
}

fn lost(target: &Path) -> io::Error {
    let why = format!(
        "it is a link to {}, which is not there for the agent and may be there for runtimes; mount that, or remove the link",
        target.display()
    );
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// Text of a regular file; `None` for anything else. Bytes that are no UTF-8 are an error in JSON, where runtimes replace them and we would write
/// back what they made of it; anything else that has them is no network to anybody.
fn content(path: &Path) -> io::Result<Option<String>> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Ok(None);
    }
    if found.len() > LARGEST {
        return Err(too_large(found.len()));
    }
    match String::from_utf8(fs::read(path)?) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let replaced = String::from_utf8_lossy(error.as_bytes());
            match serde_json::from_str::<IgnoredAny>(&replaced) {
                Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                Err(_) => Ok(Some(replaced.into_owned())),
            }
        }
    }
}

fn too_large(bytes: u64) -> io::Error {
    io::Error::other(format!("{bytes} bytes are too many"))
}

/// Takes one step that was decided on a snapshot. `ours` is the mode of files that are ours.
///
/// # Errors
/// The directory is as it was.
pub fn apply(
    directory: &Path,
    step: &Step,
    now: &DirectorySnapshot,
    ours: u32,
) -> Result<Replaced, FileError> {
    match step {
        Step::Write { name, text, mode } => write(directory, (name, text), mode, now, ours),
        Step::Remove { name } => match now.text(name) {
            Some(read) => files::remove_as_read(&directory.join(name), read),
            // Nobody decided on what is there.
            None => Ok(Replaced::Changed),
        },
    }
}

/// Writes a list, unless somebody else wrote it since the snapshot.
fn write(
    directory: &Path,
    (name, text): (&str, &str),
    mode: &FileMode,
    now: &DirectorySnapshot,
    ours: u32,
) -> Result<Replaced, FileError> {
    let mode = match mode {
        FileMode::Ours => ours,
        FileMode::Of(like) => {
            let like = directory.join(like);
            match files::mode_of(&like) {
                Ok(mode) => mode,
                Err(cause) if files::is_absent(&cause) => return Ok(Replaced::Changed),
                Err(cause) => return Err(Doing::Read.failed(&like, cause)),
            }
        }
    };
    let path = directory.join(name);
    if text.len() as u64 > LARGEST {
        return Err(Doing::Write.failed(&path, too_large(text.len() as u64)));
    }
    match now.files.get(name) {
        Some(Content::Text(read)) => files::replace(&path, Some(read), text, mode),
        None => files::replace(&path, None, text, mode),
        // There is no text that could get lost.
        Some(Content::Unreadable(_) | Content::Denied(_)) => {
            let path = files::behind_links(&path).map_err(|cause| Doing::Write.failed(&path, cause))?;
            files::atomic_write(&path, &mut text.as_bytes(), mode).map(|()| Replaced::Done)
        }
    }
}

/// Removes what writes of configurations left when they were killed: in the directory, and where symbolic links in it lead.
///
/// # Errors
/// See [`files::remove_stale_temporaries`].
pub fn tidy(directory: &Path) -> Result<usize, FileError> {
    let is_written = |name: &str| ConfigFormat::of(name).is_some() || name.ends_with(SET_ASIDE);
    let mut removed = files::remove_stale_temporaries(directory, &is_written)?;
    for entry in fs::read_dir(directory).map_err(|cause| Doing::List.failed(directory, cause))?.flatten() {
        let is_configuration =
            entry.file_name().to_str().is_some_and(|name| ConfigFormat::of(name).is_some());
        let Some(target) = Some(entry.path()).filter(|path| is_configuration && path.is_symlink()) else {
            continue;
        };
        // One that leads nowhere had nothing written behind it that could be found.
        let Ok(target) = fs::canonicalize(target) else { continue };
        if let (Some(parent), Some(name)) = (target.parent(), target.file_name().and_then(OsStr::to_str)) {
            removed += files::remove_stale_temporaries(parent, &|one| one == name)?;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let name = "10-b.conflist".to_owned();
        let step = |bytes| Step::Write { name: name.clone(), text: " ".repeat(bytes), mode: FileMode::Ours };
        let largest = usize::try_from(LARGEST).unwrap();
        let error = apply(dir.path(), &step(largest + 1), &DirectorySnapshot::default(), 0o600).unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
        assert!(!dir.path().join(&name).exists());
        apply(dir.path(), &step(largest), &DirectorySnapshot::default(), 0o600).unwrap();
    }

    #[test]
    fn what_a_killed_write_left_behind_a_link_goes() {
        let (dir, side) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = side.path().join("list");
        std::fs::write(&target, "{}").unwrap();
        std::os::unix::fs::symlink(&target, dir.path().join("10-b.conflist")).unwrap();
        for name in ["list.tmp.00", "other.tmp.00"] {
            std::fs::write(side.path().join(name), "").unwrap();
        }
        // Of a file that is aside as well, out of which an uninstall takes our entry.
        std::fs::write(dir.path().join("20-c.conflist.cilium_bak.tmp.00"), "").unwrap();
        assert_eq!(tidy(dir.path()).unwrap(), 2);
        assert!(target.exists() && side.path().join("other.tmp.00").exists(), "others stay");
    }

    #[test]
    fn only_a_link_that_nobody_can_follow_is_none_for_runtimes_either() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("no-utf-8.conf"), b"{\"type\":\"a\xff\"}").unwrap();
        std::fs::File::create(path("large.conf")).unwrap().set_len(LARGEST + 1).unwrap();
        for (link, target) in [("loop.conf", "loop.conf"), ("nowhere.conf", "none.conf")] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        let now = read(dir.path()).unwrap();
        for (name, why) in now.denied() {
            assert!(why.starts_with(&format!("failed to read {}: ", path(name).display())), "{why}");
        }
        let denied: Vec<_> = now.denied().map(|(name, _)| name).collect();
        assert_eq!(denied, ["large.conf", "no-utf-8.conf"]);
        let unreadable = |name: &str| matches!(now.files[name], Content::Unreadable(_));
        assert!(unreadable("loop.conf") && unreadable("nowhere.conf"), "{now:?}");
        for errno in [Errno::IO, Errno::MFILE, Errno::STALE, Errno::ACCESS] {
            assert!(matches!(unread(&path("a.conf"), errno.into()), Content::Denied(_)), "{errno}");
        }
    }

    /// As where an owner moves a finished file over the half of one that was read.
    #[test]
    fn what_was_not_read_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("10.conf");
        let remove = Step::Remove { name: "10.conf".to_owned() };
        std::fs::write(&path, r#"{"type":"a"}"#).unwrap();
        let now = read(dir.path()).unwrap();
        std::fs::write(&path, r#"{"type":"b"}"#).unwrap();
        assert_eq!(apply(dir.path(), &remove, &now, 0o600).unwrap(), Replaced::Changed);
        assert!(path.exists());
        let now = read(dir.path()).unwrap();
        assert_eq!(apply(dir.path(), &remove, &now, 0o600).unwrap(), Replaced::Done);
        assert!(!path.exists());
    }

    #[test]
    fn a_gate_that_is_there_is_found() {
        let dir = tempfile::tempdir().unwrap();
        for (entry, gated) in [
            (r#"{"type":"istio-cni"}"#, false),
            (r#"{"type":"istio-cni","millrace_status_gate":"agent"}"#, true),
            (r#"{"type":"other","millrace_status_gate":"agent"}"#, false),
        ] {
            let text = format!(r#"{{"cniVersion":"1.0.0","name":"n","plugins":[{{"type":"a"}},{entry}]}}"#);
            std::fs::write(dir.path().join("10.conflist"), text).unwrap();
            assert_eq!(is_gated(dir.path()), gated, "{entry}");
        }
    }
}
