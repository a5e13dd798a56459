// SPDX-License-Identifier: Apache-2.0
//! Programs that the machine has, and that no component builds.

use std::path::PathBuf;

use crate::error::Error;

/// Finds a program in `PATH`.
///
/// # Errors
/// It is not installed.
pub fn find(name: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|at| at.join(name)).find(|at| at.is_file());
    found.ok_or_else(|| Error::NotInstalled(name.to_owned()))
}
