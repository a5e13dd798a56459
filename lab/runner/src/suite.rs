// SPDX-License-Identifier: Apache-2.0
//! Identity of the suite that a run played: digests of the lab's programs, features and scenarios, and the commit that they are of.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Path in a packed suite of the commit that it is of.
pub(crate) const CHECKOUT: &str = "checkout.json";

/// SHA-256 of what judges a product, in hexadecimal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// The program that runs.
    pub cnilab: String,
    /// Program of the lab's pods; empty where a cluster's image has it.
    pub workload: String,
    /// Tree of features, by [`tree`].
    pub features: String,
    /// Tree of scenarios, by [`tree`].
    pub scenarios: String,
    /// Tree of `cni`, by [`tree`], that the product was built of; empty for a product of files.
    #[serde(default)]
    pub cni: String,
}

impl Digests {
    /// Digests of a workspace, of the program that runs, and of that of the lab's pods.
    pub fn of(root: &Path, program: &Path, workload: &Path, cni: String) -> anyhow::Result<Self> {
        let is_here = !workload.as_os_str().is_empty();
        Ok(Self {
            cnilab: of_file(program)?,
            workload: if is_here { of_file(workload)? } else { String::new() },
            features: tree(root, "features")?,
            scenarios: tree(root, "scenarios")?,
            cni,
        })
    }

    /// The first thing in which another run's product or judge was another, whatever its pods ran.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<&'static str> {
        let of = |digests: &Self| {
            let Self { cnilab, features, scenarios, cni, workload: _ } = digests.clone();
            [("cnilab", cnilab), ("features", features), ("scenarios", scenarios), ("cni", cni)]
        };
        let mut both = of(self).into_iter().zip(of(other));
        both.find_map(|(own, other)| (own != other).then_some(own.0))
    }
}

/// Digest of bytes, in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Digest of a file.
pub fn of_file(path: &Path) -> anyhow::Result<String> {
    let mut hasher = Hasher(Sha256::new());
    File::open(path)
        .and_then(|mut file| io::copy(&mut file, &mut hasher))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(HEXLOWER.encode(&hasher.0.finalize()))
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Digest of production's sources.
pub fn production(root: &Path) -> anyhow::Result<String> {
    tree(root, "cni")
}

/// Digest of a directory of the workspace: that of a line `SHA256  PATH` for each file, in the bytes' order of the paths.
fn tree(root: &Path, directory: &str) -> anyhow::Result<String> {
    let mut lines = BTreeMap::new();
    let mut pending = vec![root.join(directory)];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                lines.insert(path.strip_prefix(root)?.display().to_string(), of_file(&path)?);
            }
        }
    }
    let text: String = lines.iter().map(|(path, digest)| format!("{digest}  {path}\n")).collect();
    Ok(sha256(text.as_bytes()))
}

/// The commit that a suite is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    pub commit: String,
    /// True if files differ from the commit, or are not in it.
    pub is_dirty: bool,
}

impl Checkout {
    /// The checkout of a workspace: what a packed suite says, or git. `None` without either.
    #[must_use]
    pub fn of(root: &Path) -> Option<Self> {
        match std::fs::read(root.join(CHECKOUT)) {
            Ok(text) => serde_json::from_slice(&text).ok(),
            Err(_) => Self::of_git(root),
        }
    }

    /// The commit, for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.is_dirty { format!("{} with changes", self.commit) } else { self.commit.clone() }
    }

    fn of_git(root: &Path) -> Option<Self> {
        let git = |args: &[&str]| {
            let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        // A workspace inside of an unrelated checkout is of no commit.
        let top = git(&["rev-parse", "--show-toplevel"])?;
        let is_own = Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?;
        let commit = git(&["rev-parse", "HEAD"]).filter(|_| is_own)?;
        let changes = git(&["--no-optional-locks", "status", "--porcelain"])?;
        Some(Self { commit, is_dirty: !changes.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_digest_of_its_paths_and_contents() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("features/b.feature", "Feature: b");
        write("features/a/a.feature", "Feature: a");
        let first = tree(root.path(), "features").unwrap();
        let lines = [("a/a.feature", "Feature: a"), ("b.feature", "Feature: b")];
        let text: String = lines
            .map(|(path, text)| format!("{}  features/{path}\n", sha256(text.as_bytes())))
            .into_iter()
            .collect();
        assert_eq!(first, sha256(text.as_bytes()));
        write("features/b.feature", "Feature: c");
        let edited = tree(root.path(), "features").unwrap();
        std::fs::rename(root.path().join("features/b.feature"), root.path().join("features/c.feature"))
            .unwrap();
        let renamed = tree(root.path(), "features").unwrap();
        assert!(first != edited && edited != renamed);
        assert!(tree(root.path(), "scenarios").is_err());
    }

    #[test]
    fn a_packed_suite_says_which_commit_it_is_of() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Checkout::of(root.path()), None);
        let packed = Checkout { commit: "c0ffee".to_owned(), is_dirty: true };
        std::fs::write(root.path().join(CHECKOUT), serde_json::to_vec(&packed).unwrap()).unwrap();
        assert_eq!(Checkout::of(root.path()), Some(packed));
    }
}
