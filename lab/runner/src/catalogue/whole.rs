// SPDX-License-Identifier: Apache-2.0
//! Features that would silently run less than they say: without scenarios, outlines without rows, two scenarios of one id.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{bail, ensure};
use cucumber::gherkin;

use super::Entry;

/// Rejects a feature, its outlines not expanded, that has less to run than it says.
pub(super) fn check(path: &Path, feature: &gherkin::Feature) -> anyhow::Result<()> {
    let at = |line: usize| format!("{}:{line}", path.display());
    if !feature.rules.is_empty() {
        bail!("{}: the keyword Rule is not used here: one behaviour a file", path.display());
    }
    ensure!(!feature.scenarios.is_empty(), "{}: this feature has no scenario", at(feature.position.line));
    for scenario in &feature.scenarios {
        let is_outline = ["Outline", "Template"].iter().any(|word| scenario.keyword.contains(word));
        ensure!(
            !is_outline || !scenario.examples.is_empty(),
            "{}: this outline has no examples: add a table, or make it a Scenario",
            at(scenario.position.line)
        );
        for examples in &scenario.examples {
            let rows = examples.table.as_ref().map_or(0, |table| table.rows.len());
            ensure!(rows > 1, "{}: these examples have no row below their head", at(examples.position.line));
        }
    }
    Ok(())
}

/// Rejects two scenarios of one id, which reports would take for one.
pub(super) fn distinct(entries: &[Entry]) -> anyhow::Result<()> {
    let mut seen = HashMap::new();
    let place = |entry: &Entry| format!("{}:{}", entry.file, entry.scenario.position.line);
    for entry in entries {
        if let Some(other) = seen.insert(entry.id.as_str(), entry) {
            bail!(
                "{}: the id {} is that of {} as well: let their titles differ in letters or digits",
                place(entry),
                entry.id,
                place(other)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use crate::cli::Selection;

    fn refusal(text: &str) -> String {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("features/x")).unwrap();
        std::fs::write(root.path().join("features/x/x.feature"), text).unwrap();
        format!("{:#}", Catalogue::read(root.path(), &Selection::default()).unwrap_err())
    }

    #[test]
    fn what_would_run_less_than_it_says_is_refused_with_file_and_line() {
        let step = "    Then \"/etc/x\" of the node contains \"y\"\n";
        for (text, told) in [
            (
                format!(
                    "Feature: x\n\n  Scenario: It is redirected\n{step}\n  Scenario: It is redirected!\n{step}"
                ),
                "features/x/x.feature:6: the id x/x/it-is-redirected is that of features/x/x.feature:3",
            ),
            ("Feature: x\n".to_owned(), "features/x/x.feature:1: this feature has no scenario"),
            (
                format!("Feature: x\n\n  Scenario Outline: <a>\n{step}"),
                "features/x/x.feature:3: this outline has no examples",
            ),
            (
                format!("Feature: x\n\n  Scenario Outline: <a>\n{step}\n    Examples:\n      | a |\n"),
                "features/x/x.feature:6: these examples have no row",
            ),
            (
                format!("Feature: x\n\n  @real-kernle\n  Scenario: one\n{step}"),
                "features/x/x.feature:4: unknown tag @real-kernle",
            ),
        ] {
            let refused = refusal(&text);
            assert!(refused.contains(told), "{told} is not in {refused}");
        }
    }
}
