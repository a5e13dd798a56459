// SPDX-License-Identifier: Apache-2.0
//! The plugin's binary: every file of the source directory goes into each target directory, unless it is there already.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::BINARY;
use super::pass::{Touch, Written};
use crate::files::version::FileVersion;
use crate::files::{self, Doing, FileError};
use crate::settings::Places;

/// Binaries that were written or verified. A verified one is not read again while nobody touched it.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<PathBuf, KnownBinary>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownBinary {
    source: FileVersion,
    /// As it was when it was compared.
    verified: Option<FileVersion>,
}

/// Puts right what is not; while somebody is fought over it, only what nobody else changed.
///
/// # Errors
/// The first file that could not be.
pub fn install(places: &Places, known: &mut Known, touch: &Touch) -> Result<Written, FileError> {
    let mut written = Written::Not;
    for source in shipped(&places.source_dir)? {
        for directory in &places.target_dirs {
            written = written.max(install_one(&source, directory, known, touch)?);
        }
    }
    Ok(written)
}

/// Files in the image.
fn shipped(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |cause| Doing::List.failed(directory, cause);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Doing::Read.failed(&directory.join(BINARY), io::ErrorKind::NotFound.into()));
    }
    Ok(files)
}

fn install_one(
    source: &Path,
    directory: &Path,
    known: &mut Known,
    touch: &Touch,
) -> Result<Written, FileError> {
    let Some(name) = source.file_name() else { return Ok(Written::Not) };
    let target = directory.join(name);
    let unread = |cause| Doing::Read.failed(source, cause);
    // Before they are compared: what takes the place of one meanwhile has another version.
    let now = KnownBinary {
        source: FileVersion::of(source).map_err(unread)?,
        verified: FileVersion::of(&target).ok(),
    };
    let before = known.0.get(&target).copied();
    if now.verified.is_some() && before == Some(now) {
        return Ok(Written::Not);
    }
    files::remove_stale_temporaries(directory, &|stale| *stale == *name)?;
    let mode = files::mode_of(source).map_err(unread)?;
    if files::mode_of_own(&target) == Some(mode) && files::same_content(source, &target)? {
        known.0.insert(target, now);
        return Ok(Written::Not);
    }
    let written = Written::after(before.is_some_and(|before| before.source == now.source));
    written.may(&target, touch)?;
    let mut content = File::open(source).map_err(unread)?;
    files::atomic_write(&target, &mut content, mode)?;
    tracing::info!(target: "install", path = %target.display(), "installed the plugin's binary");
    // Not verified: a write that went elsewhere is found by the next pass.
    known.0.insert(target, KnownBinary { verified: None, ..now });
    Ok(written)
}

/// True if each target directory has a binary, up to date or not.
#[must_use]
pub fn are_there(places: &Places) -> bool {
    places.target_dirs.iter().all(|directory| directory.join(BINARY).is_file())
}
