// SPDX-License-Identifier: Apache-2.0
//! Replaces a file that somebody else writes as well, without losing what they write meanwhile.
//!
//! The new file and the old one change places in one step (`RENAME_EXCHANGE`), and only what came out is compared with what the new one was made of. If it
//! is something else, it goes back. At every moment the name leads to a whole file. The temporary's name says what is to come out and what goes in, so that
//! after a kill it is known whether it holds what somebody else wrote last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::{Doing, FileError, behind_links, fill, is_absent, sync_directory, temporary_of};

/// Digits of each number in a temporary's name: random, what comes out, what goes in.
const DIGITS: usize = 16;
/// Ends the name of a temporary that holds what somebody else wrote.
const THEIRS: &str = "ff";

/// Result of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    Done,
    /// Somebody wrote or removed the file since it was read: that is what is there.
    Changed,
}

/// Puts `content` in the place of a file that held `read`; `None` if there was none.
///
/// # Errors
/// The file is as it was, or as somebody else wrote it.
pub fn replace(path: &Path, read: Option<&str>, content: &str, mode: u32) -> Result<Replaced, FileError> {
    let failed = |cause| Doing::Write.failed(path, cause);
    let target = behind_links(path).map_err(failed)?;
    let random = temporary_of(&target).map_err(failed)?;
    let plan = Planned {
        out: digest(read.unwrap_or_default().as_bytes()),
        put: digest(content.as_bytes()),
        theirs: false,
    };
    let temporary = plan.name(&random);
    let swap = Swap { target: &target, temporary: &temporary };
    let done = fill(&temporary, &mut content.as_bytes(), mode).and_then(|()| match read {
        Some(read) => swap.replace(read.as_bytes(), content.as_bytes()),
        None => swap.create(),
    });
    if done.is_err() {
        // It may hold what somebody else wrote. What cannot go back now is found by the next run.
        recover(&temporary)?;
    }
    let removed = fs::remove_file(&temporary);
    let done = done.map_err(failed)?;
    removed.or_else(|cause| if is_absent(&cause) { Ok(()) } else { Err(cause) }).map_err(failed)?;
    sync_directory(&target).map_err(failed)?;
    Ok(done)
}

/// Removes a file that held `read`. What is written between the comparison and the removal is lost.
///
/// # Errors
/// It is still there.
pub fn remove_as_read(path: &Path, read: &str) -> Result<Replaced, FileError> {
    if read_if_there(path)?.is_none_or(|there| there != read.as_bytes()) {
        return Ok(Replaced::Changed);
    }
    super::remove(path).map(|()| Replaced::Done)
}

/// Puts back what somebody else wrote, if a killed replacement left that in its temporary.
///
/// # Errors
/// It is still there.
pub(super) fn recover(temporary: &Path) -> Result<(), FileError> {
    let failed = |cause| Doing::Write.failed(temporary, cause);
    let Some((target, plan)) = Planned::read(temporary) else { return Ok(()) };
    // If one of them is gone, whoever wrote it has removed it.
    let (Some(there), Some(aside)) = (read_if_there(&target)?, read_if_there(temporary)?) else {
        return Ok(());
    };
    if !plan.is_theirs_aside(&digest(&there), &digest(&aside)) {
        return Ok(());
    }
    Swap { target: &target, temporary }.give_back(there).map_err(failed)?;
    sync_directory(&target).map_err(failed)
}

/// A file, and the temporary beside it.
struct Swap<'a> {
    target: &'a Path,
    temporary: &'a Path,
}

impl Swap<'_> {
    fn replace(&self, read: &[u8], content: &[u8]) -> io::Result<Replaced> {
        match self.exchange() {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Replaced::Changed),
            Err(errno) if is_unsupported(errno) => return self.compare_and_rename(read),
            Err(errno) => return Err(errno.into()),
        }
        let out = fs::read(self.temporary);
        if out.as_ref().is_ok_and(|out| out == read) {
            return Ok(Replaced::Done);
        }
        self.give_back(content.to_vec())?;
        out.map(|_| Replaced::Changed)
    }

    /// Puts what is in the temporary where `put` is. Somebody may write once more before that: then the later text is what came out.
    fn give_back(&self, mut put: Vec<u8>) -> io::Result<()> {
        let mut temporary = self.temporary.to_owned();
        loop {
            let newest = fs::read(&temporary)?;
            let plan = Planned { out: digest(&put), put: digest(&newest), theirs: true };
            let renamed = plan.name(&temporary_of(self.target)?);
            fs::rename(&temporary, &renamed)?;
            temporary = renamed;
            match (Swap { target: self.target, temporary: &temporary }).exchange() {
                // Without a file it was removed by who wrote it.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            let out = fs::read(&temporary)?;
            if out == put || out == newest {
                return fs::remove_file(&temporary);
            }
            put = newest;
        }
    }

    fn create(&self) -> io::Result<Replaced> {
        match renameat_with(CWD, self.temporary, CWD, self.target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Replaced::Done),
            Err(Errno::EXIST) => Ok(Replaced::Changed),
            Err(errno) if is_unsupported(errno) => match fs::symlink_metadata(self.target) {
                Ok(_) => Ok(Replaced::Changed),
                Err(_) => fs::rename(self.temporary, self.target).map(|()| Replaced::Done),
            },
            Err(errno) => Err(errno.into()),
        }
    }

    /// On file systems that cannot exchange: what is written between the two calls is lost.
    fn compare_and_rename(&self, read: &[u8]) -> io::Result<Replaced> {
        match fs::read(self.target) {
            Ok(there) if there == read => fs::rename(self.temporary, self.target).map(|()| Replaced::Done),
            Ok(_) => Ok(Replaced::Changed),
            Err(cause) if is_absent(&cause) => Ok(Replaced::Changed),
            Err(cause) => Err(cause),
        }
    }

    fn exchange(&self) -> Result<(), Errno> {
        renameat_with(CWD, self.temporary, CWD, self.target, RenameFlags::EXCHANGE)
    }
}

/// Content of a file; `None` if it does not exist.
fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match fs::read(path) {
        Ok(there) => Ok(Some(there)),
        Err(cause) if is_absent(&cause) => Ok(None),
        Err(cause) => Err(Doing::Read.failed(path, cause)),
    }
}

/// NFS, and FUSE without it.
fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..DIGITS / 2])
}

/// Digests of an exchange, in the name of the temporary.
struct Planned {
    /// Of what is at the file.
    out: String,
    /// Of what is in the temporary.
    put: String,
    /// True if that is somebody else's.
    theirs: bool,
}

impl Planned {
    /// Name of a temporary.
    fn name(&self, random: &Path) -> PathBuf {
        let mut name = random.as_os_str().to_owned();
        for part in [self.out.as_str(), &self.put, if self.theirs { THEIRS } else { "" }] {
            name.push(part);
        }
        name.into()
    }

    /// Reads a temporary's name; the file that it is for.
    fn read(temporary: &Path) -> Option<(PathBuf, Self)> {
        let name = temporary.file_name()?.to_str()?;
        let target = super::written_name(name)?;
        let digits = name.get(target.len() + super::TEMPORARY.len()..)?;
        let digest = |at: usize| Some(digits.get(at * DIGITS..(at + 1) * DIGITS)?.to_owned());
        let theirs = digits.get(3 * DIGITS..)? == THEIRS;
        Some((temporary.with_file_name(target), Self { out: digest(1)?, put: digest(2)?, theirs }))
    }

    /// True if the temporary holds what somebody else wrote last.
    fn is_theirs_aside(&self, there: &str, aside: &str) -> bool {
        let came_out = there == self.put && aside != self.out && aside != self.put;
        let to_be_put = self.theirs && there == self.out && aside == self.put;
        came_out || to_be_put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(tempfile::TempDir);

    impl Directory {
        fn with(files: &[(&str, &str)]) -> Self {
            let directory = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                fs::write(directory.path(name), text).unwrap();
            }
            directory
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn all(&self) -> Vec<(String, String)> {
            let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap());
            let mut all: Vec<_> = entries
                .map(|entry| {
                    let text = fs::read_to_string(entry.path()).unwrap();
                    (entry.file_name().into_string().unwrap(), text)
                })
                .collect();
            all.sort();
            all
        }
    }

    fn only(name: &str, text: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), text.to_owned())]
    }

    #[test]
    fn what_was_read_is_replaced_and_what_somebody_wrote_since_stays() {
        for (there, read, done, left) in [
            (Some("old"), Some("old"), Replaced::Done, Some("new")),
            (Some("theirs"), Some("old"), Replaced::Changed, Some("theirs")),
            (Some(""), Some("old"), Replaced::Changed, Some("")),
            (None, Some("old"), Replaced::Changed, None),
            (None, None, Replaced::Done, Some("new")),
            (Some("theirs"), None, Replaced::Changed, Some("theirs")),
        ] {
            let there: Vec<_> = there.map(|text| ("a.conflist", text)).into_iter().collect();
            let directory = Directory::with(&there);
            let replaced = replace(&directory.path("a.conflist"), read, "new", 0o644).unwrap();
            assert_eq!(replaced, done, "{there:?} {read:?}");
            assert_eq!(directory.all(), left.map(|text| only("a.conflist", text)).unwrap_or_default());
        }
    }

    #[test]
    fn what_was_read_is_removed_and_what_somebody_wrote_since_stays() {
        for (there, done, left) in [
            (Some("old"), Replaced::Done, None),
            (Some("theirs"), Replaced::Changed, Some("theirs")),
            (None, Replaced::Changed, None),
        ] {
            let there: Vec<_> = there.map(|text| ("a.conf", text)).into_iter().collect();
            let directory = Directory::with(&there);
            assert_eq!(remove_as_read(&directory.path("a.conf"), "old").unwrap(), done, "{there:?}");
            assert_eq!(directory.all(), left.map(|text| only("a.conf", text)).unwrap_or_default());
        }
    }

    #[test]
    fn who_has_the_file_open_for_writing_goes_on_in_the_file_that_is_there() {
        use std::io::Write as _;
        let directory = Directory::with(&[("a.conflist", "old")]);
        // Truncated, and not written yet.
        let mut owner = fs::File::create(directory.path("a.conflist")).unwrap();
        let replaced = replace(&directory.path("a.conflist"), Some("old"), "new", 0o644).unwrap();
        owner.write_all(b"theirs").unwrap();
        assert_eq!((replaced, directory.all()), (Replaced::Changed, only("a.conflist", "theirs")));
    }

    #[test]
    fn of_several_texts_that_somebody_wrote_the_last_stays() {
        // Ours took the place of their first one, and before that went back they wrote a second one.
        let directory = Directory::with(&[("a.conflist", "second"), ("t", "first")]);
        let (target, temporary) = (directory.path("a.conflist"), directory.path("t"));
        Swap { target: &target, temporary: &temporary }.give_back(b"ours".to_vec()).unwrap();
        assert_eq!(directory.all(), only("a.conflist", "second"));
    }

    #[test]
    fn a_killed_replacement_loses_nothing_that_somebody_wrote() {
        for (theirs, there, aside, left) in [
            (false, "new", "theirs", "theirs"),  // swapped, not compared
            (false, "new", "old", "new"),        // swapped, not removed
            (false, "old", "ne", "old"),         // not even written
            (false, "later", "new", "later"),    // written by somebody else before the swap
            (false, "later", "theirs", "later"), // and after it, once more
            (true, "old", "new", "new"),         // about to be given back
            (true, "new", "old", "new"),         // given back
            (true, "later", "new", "later"),     // written once more before
            (true, "new", "later", "later"),     // which was swapped out
        ] {
            let directory = Directory::with(&[("a.conflist", there)]);
            let random = temporary_of(&directory.path("a.conflist")).unwrap();
            let temporary = Planned { out: digest(b"old"), put: digest(b"new"), theirs }.name(&random);
            fs::write(&temporary, aside).unwrap();
            assert_eq!(
                super::super::remove_stale_temporaries(directory.0.path(), &|name| name == "a.conflist")
                    .unwrap(),
                1
            );
            assert_eq!(directory.all(), only("a.conflist", left), "{theirs} {there} {aside}");
        }
    }

    #[test]
    fn what_somebody_wrote_is_not_given_up_as_long_as_nobody_can_compare() {
        let directory = Directory::with(&[]);
        let random = temporary_of(&directory.path("a.conflist")).unwrap();
        let temporary = Planned { out: digest(b"old"), put: digest(b"new"), theirs: false }.name(&random);
        fs::write(&temporary, "theirs").unwrap();
        // EISDIR, in the place of EIO.
        fs::create_dir(directory.path("a.conflist")).unwrap();
        let tidied = super::super::remove_stale_temporaries(directory.0.path(), &|name| name == "a.conflist");
        assert!(tidied.unwrap_err().to_string().starts_with("failed to read "));
        assert_eq!(fs::read_to_string(&temporary).unwrap(), "theirs");
    }
}
