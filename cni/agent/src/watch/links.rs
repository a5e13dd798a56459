// SPDX-License-Identifier: Apache-2.0
//! Where symbolic links lead: every name on the way may be replaced, and then something else is read under the name that they have.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Names, WatchedDirectory};

/// The kernel's limit (MAXSYMLINKS).
const MOST: usize = 40;

/// The names behind the links of a place, be there something under them or not.
pub(super) fn behind(place: &WatchedDirectory) -> Vec<WatchedDirectory> {
    let paths: Vec<PathBuf> = match &place.names {
        Names::One(name) => vec![place.directory.join(name)],
        names => fs::read_dir(&place.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| names.have(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect(),
    };
    paths.iter().filter(|path| path.is_symlink()).flat_map(|path| way(path)).collect()
}

/// Symbolic links on the way to a path's target, and the target.
fn way(path: &Path) -> Vec<WatchedDirectory> {
    let mut rest = parts(path);
    let (mut at, mut found) = (PathBuf::new(), Vec::new());
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(&part);
        match fs::read_link(&at) {
            Ok(leads_to) if found.len() < MOST => {
                found.extend(place(&at));
                at.pop();
                rest = parts(&leads_to).into_iter().chain(rest).collect();
            }
            _ if rest.is_empty() => found.extend(place(&at)),
            _ => {}
        }
    }
    found
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.iter().filter(|part| *part != ".").map(ToOwned::to_owned).collect()
}

fn place(path: &Path) -> Option<WatchedDirectory> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(WatchedDirectory { directory: path.parent()?.to_owned(), names: Names::One(name) })
}
