// SPDX-License-Identifier: Apache-2.0
//! The plugin's binary: every file of the source directory goes into each target directory, unless it is there already.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::BINARY;
use crate::files::version::FileVersion;
use crate::files::{self, Doing, FileError};
use crate::settings::Places;

/// Verified binaries, which are not read again while nobody touched them.
#[derive(Debug, Default)]
pub struct Known(Vec<(PathBuf, [FileVersion; 2])>);

/// Puts right what is not. Whether anything was.
///
/// # Errors
/// The first file that could not be.
pub fn install(places: &Places, known: &mut Known) -> Result<bool, FileError> {
    let mut changed = false;
    for source in shipped(&places.source_dir)? {
        for directory in &places.target_dirs {
            changed |= install_one(&source, directory, known)?;
        }
    }
    Ok(changed)
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

fn install_one(source: &Path, directory: &Path, known: &mut Known) -> Result<bool, FileError> {
    let Some(name) = source.file_name() else { return Ok(false) };
    let target = directory.join(name);
    if known.holds(source, &target) {
        return Ok(false);
    }
    files::remove_stale_temporaries(directory, &|stale| *stale == *name)?;
    let mode = files::mode_of(source).map_err(|cause| Doing::Read.failed(source, cause))?;
    let right = files::mode_of(&target).is_ok_and(|is| is == mode) && files::same_content(source, &target)?;
    if !right {
        let mut content = File::open(source).map_err(|cause| Doing::Read.failed(source, cause))?;
        files::atomic_write(&target, &mut content, mode)?;
        tracing::info!(target: "install", path = %target.display(), "installed the plugin's binary");
    }
    // Read back before it is cached: a write that went elsewhere is found by the next pass.
    if right {
        known.remember(source, target);
    }
    Ok(!right)
}

impl Known {
    fn holds(&self, source: &Path, target: &Path) -> bool {
        let Some((_, versions)) = self.0.iter().find(|(path, _)| path == target) else { return false };
        [source, target].map(|path| FileVersion::of(path).ok()) == versions.map(Some)
    }

    fn remember(&mut self, source: &Path, target: PathBuf) {
        self.0.retain(|(path, _)| *path != target);
        if let (Ok(from), Ok(to)) = (FileVersion::of(source), FileVersion::of(&target)) {
            self.0.push((target, [from, to]));
        }
    }
}

/// True if each target directory has a binary, up to date or not.
#[must_use]
pub fn are_there(places: &Places) -> bool {
    places.target_dirs.iter().all(|directory| directory.join(BINARY).is_file())
}
