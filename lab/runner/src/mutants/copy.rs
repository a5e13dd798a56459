// SPDX-License-Identifier: Apache-2.0
//! A copy of the workspace with all defects woven in, for cargo to build. Files that are as they should be are left alone, because
//! cargo tells by their times what to build again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::weave::{self, Woven};
use crate::locate::Workspace;

/// Marker of a directory that is a cache, as cargo's target directories are.
const CACHE: &str = "CACHEDIR.TAG";
/// Cargo's usual target directory, which it marks only where it made it itself.
const TARGET: &str = "target";

/// Manifest of the workspace.
const MANIFEST: &str = "Cargo.toml";

/// Section of the lints.
const LINTS: &str = "[workspace.lints.rust]";

/// Manifest of the crate that all others depend on.
const LOWEST: &str = "cni/protocol/Cargo.toml";

/// Feature of the copy alone. Cargo names artifacts by path within a workspace and by features: in the build directory that both share, the
/// copy's crates would otherwise replace production's.
const FEATURE: &str = "\n[features]\nmutants = []\n";

/// No lint is about the copy: parentheses around an operand are not needed everywhere, and a defect leaves variables unused.
const QUIET: &str = "warnings = { level = \"allow\", priority = 1 }";

/// Profile of production's own packages. In the copy they are not optimized: it is built anew for each change, and runs for minutes.
const OPTIMIZED: &str = "{ opt-level = \"s\",";

/// Weaves, and updates the copy. Returns its root.
pub fn refresh(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let mut woven = weave::weave(&workspace.root)?;
    let path = workspace.root.join(MANIFEST);
    let manifest =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest =
        manifest.replace(LINTS, &format!("{LINTS}\n{QUIET}")).replace(OPTIMIZED, "{ opt-level = 0,");
    woven.files.insert(MANIFEST.to_owned(), manifest);
    let path = workspace.root.join(LOWEST);
    let lowest = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    woven.files.insert(LOWEST.to_owned(), lowest + FEATURE);
    let copy = workspace.target.join("lab/mutants/src");
    mirror(&workspace.root, &copy, &woven)?;
    Ok(copy)
}

/// Makes `copy` hold what `root` holds, with the woven files in place of their originals, and nothing else.
fn mirror(root: &Path, copy: &Path, woven: &Woven) -> anyhow::Result<()> {
    let mut wanted: BTreeSet<PathBuf> = files(root)?.into_iter().collect();
    wanted.extend(woven.files.keys().map(PathBuf::from));
    for file in &wanted {
        let bytes = match file.to_str().and_then(|name| woven.files.get(name)) {
            Some(text) => text.clone().into_bytes(),
            None => {
                let path = root.join(file);
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
            }
        };
        write_if_changed(&copy.join(file), &bytes)?;
    }
    for stale in files(copy)?.into_iter().filter(|file| !wanted.contains(file)) {
        let path = copy.join(stale);
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The files below a directory, relative to it: no caches, nothing hidden. Cargo's configuration is the workspace's own, as cargo
/// is started there; a second one would give each flag twice.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let is_cache = || path == root.join(TARGET) || path.join(CACHE).is_file();
            if is_hidden || (kind.is_dir() && is_cache()) {
                continue;
            }
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file() {
                found.push(path.strip_prefix(root)?.to_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        write_if_changed(&root.join(file), text.as_bytes()).unwrap();
    }

    #[test]
    fn only_files_whose_content_differs_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let (root, copy) = (dir.path().join("root"), dir.path().join("root/target/copy"));
        for file in [
            "cni/a.rs",
            "cni/b.rs",
            "cni/old.rs",
            ".cargo/config.toml",
            "target/ci/log",
            "cache/CACHEDIR.TAG",
        ] {
            write(&root, file, "as it is");
        }
        let mut woven = Woven::default();
        woven.files.insert("cni/a.rs".to_owned(), "woven".to_owned());
        woven.files.insert("cni/new.rs".to_owned(), "only there".to_owned());
        mirror(&root, &copy, &woven).unwrap();
        let times = |file: &str| std::fs::metadata(copy.join(file)).unwrap().modified().unwrap();
        let before = (times("cni/a.rs"), times("cni/b.rs"));

        std::fs::remove_file(root.join("cni/old.rs")).unwrap();
        woven.files.insert("cni/new.rs".to_owned(), "changed".to_owned());
        mirror(&root, &copy, &woven).unwrap();
        assert_eq!((times("cni/a.rs"), times("cni/b.rs")), before);
        let mut all = files(&copy).unwrap();
        all.sort();
        assert_eq!(all, ["cni/a.rs", "cni/b.rs", "cni/new.rs"].map(PathBuf::from));
        let text = |file: &str| std::fs::read_to_string(copy.join(file)).unwrap();
        assert_eq!((text("cni/a.rs"), text("cni/new.rs")), ("woven".to_owned(), "changed".to_owned()));
    }
}
