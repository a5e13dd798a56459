// SPDX-License-Identifier: Apache-2.0
//! Tags: those that a scenario may have, and expressions of them that select scenarios.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure};
use cucumber::gherkin::tagexpr::TagOperation;

use super::{BUSY, Catalogue, LONG, MUTANT, NEEDS, SERIAL, feature_files, folder, stem};
use crate::back_ends;
use crate::binaries::OPTIONAL;
use crate::portable::MILLRACE;

/// True for a tag that a scenario may have.
pub(super) fn is_known(tag: &str) -> bool {
    NEEDS.contains(&tag)
        || OPTIONAL.contains(&tag)
        || [SERIAL, BUSY, LONG, back_ends::TAG, MILLRACE].contains(&tag)
        || tag.starts_with(MUTANT)
}

/// Parses an expression. Each tag of it is one that a scenario may have, or a folder of features; of defects those that a scenario names.
pub(super) fn parse(text: &str, all: &Catalogue, root: &Path) -> anyhow::Result<TagOperation> {
    let parsed: TagOperation = text.parse().map_err(|error| anyhow!("--tags {text:?}: {error}"))?;
    let folders = feature_files(&root.join("features"))?;
    let of = |path: &PathBuf| Some(folder(stem(path.strip_prefix(root).ok()?.to_str()?)).to_owned());
    let folders: Vec<_> = folders.iter().filter_map(of).collect();
    for tag in named(&parsed) {
        let is_of_some = || all.entries.iter().any(|entry| entry.tags.iter().any(|own| own == tag));
        let is_there = match tag.starts_with(MUTANT) {
            true => is_of_some(),
            false => is_known(tag) || folders.iter().any(|folder| folder == tag),
        };
        ensure!(
            is_there,
            "--tags {text:?}: no scenario has the tag @{tag}: `cnilab list` prints tags and folders"
        );
    }
    Ok(parsed)
}

/// Tags of an expression.
fn named(expression: &TagOperation) -> Vec<&str> {
    match expression {
        TagOperation::Tag(tag) => vec![tag.as_str()],
        TagOperation::Not(inner) => named(inner),
        TagOperation::And(one, two) | TagOperation::Or(one, two) => [named(one), named(two)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Selection;

    fn read(tags: &str) -> anyhow::Result<Catalogue> {
        let root = tempfile::tempdir()?;
        for folder in ["serve", "redirection"] {
            let dir = root.path().join("features").join(folder);
            std::fs::create_dir_all(&dir)?;
            std::fs::write(dir.join("x.feature"), "@mutant:late\nFeature: x\n\n  Scenario: x\n    Then y\n")?;
        }
        let feature = Some("redirection".into());
        Catalogue::read(
            root.path(),
            &Selection { tags: Some(tags.to_owned()), feature, ..Selection::default() },
        )
    }

    #[test]
    fn a_tag_that_no_scenario_has_is_refused_wherever_it_stands() {
        for tags in
            ["@redirection or @serv", "not @iptable-tools", "@redirection and not (@ipv6 or @mutant:lat)"]
        {
            let refused = read(tags).unwrap_err().to_string();
            assert!(
                refused.starts_with("--tags ") && refused.contains("no scenario has the tag @"),
                "{refused}"
            );
        }
    }

    #[test]
    fn folders_and_what_a_scenario_may_need_are_tags_whatever_else_selects() {
        for tags in ["@redirection or @serve", "not @iptables-tools", "@mutant:late and not @busy"] {
            assert_eq!(read(tags).unwrap().entries.len(), 1, "{tags}");
        }
    }
}
