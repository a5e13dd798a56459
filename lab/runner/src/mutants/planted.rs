// SPDX-License-Identifier: Apache-2.0
//! The names of all defects: those of the catalogue, and those that production code plants, as its text has them. A build with
//! defects does not tell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::weave;

/// Names, each with its places: `cni/redirect/src/host.rs:47`.
pub type Planted = BTreeMap<String, Vec<String>>;

/// What stands before a name.
const BEFORE: &str = "mutant!(\"";

/// Reads the catalogue and the production crates of a workspace.
pub fn read(root: &Path) -> anyhow::Result<Planted> {
    let mut all = in_production(root)?;
    for (name, places) in weave::weave(root)?.places {
        if let Some(before) = all.insert(name.clone(), places) {
            bail!("{name} is in the catalogue, and planted in {}", before.join(", "));
        }
    }
    Ok(all)
}

fn in_production(root: &Path) -> anyhow::Result<Planted> {
    let mut planted = Planted::new();
    let mut pending = vec![root.join("cni")];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))? {
            let path: PathBuf = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let file = path.strip_prefix(root)?.display().to_string();
                for (line, name) in names(&text) {
                    planted.entry(name.to_owned()).or_default().push(format!("{file}:{line}"));
                }
            }
        }
    }
    planted.values_mut().for_each(|places| places.sort());
    Ok(planted)
}

/// The names in a file, each with its line.
fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        line.split(BEFORE).skip(1).filter_map(move |rest| Some((at + 1, rest.split_once('"')?.0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_their_lines() {
        let text = "a\nif mutant!(\"x\") || protocol::mutant!(\"y-z\") {}\nmutant!(name)\n";
        assert_eq!(names(text).collect::<Vec<_>>(), [(2, "x"), (2, "y-z")]);
    }
}
