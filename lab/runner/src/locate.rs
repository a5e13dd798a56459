// SPDX-License-Identifier: Apache-2.0
//! Where the workspace is: features, scenarios and the packages to build are found from it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::carried;

/// Paths that a run reads and writes.
#[derive(Debug)]
pub struct Workspace {
    /// The directory of the root `Cargo.toml`, or that of a suite that the program carries.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// Where runs leave something, unless they are told otherwise.
    pub lab: PathBuf,
    /// The suite that this program carries, unpacked for as long as this is held.
    pub carried: Option<TempDir>,
}

impl Workspace {
    /// Finds the workspace: what this program carries, else at or above where `cargo run` says this package is, this program lies, or it was started.
    pub fn find() -> anyhow::Result<Self> {
        if let Some(suite) = carried::unpack(&std::env::temp_dir())? {
            let (root, lab) = (suite.path().to_owned(), std::env::current_dir()?.join("cnilab.d"));
            return Ok(Self { root, target: lab.clone(), lab, carried: Some(suite) });
        }
        let (program, here) = (std::env::current_exe()?, std::env::current_dir()?);
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = above(package.iter().chain([&program, &here])).with_context(|| {
            format!("no workspace with features at or above {} or {}", program.display(), here.display())
        })?;
        let target = target_dir(&root)?;
        let lab = root.join("target/lab");
        Ok(Self { root, target, lab, carried: None })
    }

    #[must_use]
    pub fn features(&self) -> PathBuf {
        self.root.join("features")
    }
}

/// The first directory at or above these that has features and a lock file. Where the package was when it was compiled tells nothing: a checkout
/// is moved, and the copy that defects are woven into shares its build directory with this one.
fn above<'a>(mut starts: impl Iterator<Item = &'a PathBuf>) -> Option<PathBuf> {
    let is_root = |at: &&Path| at.join("features").is_dir() && at.join("Cargo.lock").is_file();
    starts.find_map(|start| start.ancestors().find(is_root).map(Path::to_owned))
}

/// Cargo's target directory: the environment's, else the one that this very binary lies in, else the default.
fn target_dir(root: &Path) -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR") {
        let dir = PathBuf::from(dir);
        if dir.as_os_str().is_empty() {
            bail!("CARGO_TARGET_DIR is empty");
        }
        return Ok(if dir.is_absolute() { dir } else { std::env::current_dir()?.join(dir) });
    }
    let exe = std::env::current_exe().context("no path of this program")?;
    Ok(marked(&exe).map_or_else(|| root.join("target"), Path::to_owned))
}

/// The directory above a program that cargo marks as its own. It marks that of a target in there as well, and leaves the outer one unmarked if
/// somebody made that; whoever took the inner one would build everything once more.
fn marked(exe: &Path) -> Option<&Path> {
    let marked = exe.ancestors().skip(1).find(|at| at.join("CACHEDIR.TAG").is_file())?;
    let name = marked.file_name()?.to_string_lossy();
    let is_of_a_target = name.starts_with(&format!("{}-unknown-linux-", std::env::consts::ARCH));
    if is_of_a_target { marked.parent() } else { Some(marked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_found_above_the_first_start_that_lies_in_one() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        for root in [&one, &other] {
            std::fs::create_dir_all(root.join("features")).unwrap();
            std::fs::write(root.join("Cargo.lock"), "").unwrap();
        }
        let (program, here) = (one.join("target/debug/cnilab"), other.join("lab"));
        assert_eq!(above([&program, &here].into_iter()), Some(one));
        assert_eq!(above([&dir.path().join("nowhere"), &here].into_iter()), Some(other));
        assert_eq!(above([&dir.path().join("nowhere")].into_iter()), None);
    }

    #[test]
    fn a_program_of_a_target_lies_in_the_same_directory_as_one_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let of_target = target.join(format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        let exes = [of_target.join("debug/cnilab"), target.join("debug/cnilab")];
        std::fs::create_dir_all(&of_target).unwrap();
        assert_eq!(exes.each_ref().map(|exe| marked(exe)), [None, None]);
        // Somebody made the outer one before cargo did.
        std::fs::write(of_target.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(marked(&exes[0]), Some(&*target));
        std::fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(exes.each_ref().map(|exe| marked(exe)), [Some(&*target); 2]);
    }
}
