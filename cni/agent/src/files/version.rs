// SPDX-License-Identifier: Apache-2.0
//! Tells without reading it whether a file is the one that was read before.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Identifies the content of a file: changes of it move the inode's change time, which nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl FileVersion {
    /// Version of the file at `path`, links followed.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        Ok(Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Value made of a version of a file's content.
#[derive(Debug)]
pub struct Cached<T>(Mutex<Option<(FileVersion, T)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Cached<T> {
    /// The value of `version`, which `read` makes unless it is cached.
    ///
    /// # Errors
    /// Those of `read`; the value before stays cached.
    pub fn get<E>(&self, version: FileVersion, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, value)) = held.as_ref().filter(|(of, _)| *of == version) {
            return Ok(value.clone());
        }
        let value = read()?;
        *held = Some((version, value.clone()));
        Ok(value)
    }

    /// Reads anew next time.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
