// SPDX-License-Identifier: Apache-2.0
//! `cnilab list`: what there is to run, what it needs, and which defects it must catch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cucumber::gherkin;

use crate::catalogue::{Catalogue, Entry};
use crate::mutants::weave::Places;

#[must_use]
pub fn render(catalogue: &Catalogue, planted: Option<&Places>) -> String {
    let mut text = String::new();
    let mut file = "";
    for entry in &catalogue.entries {
        if entry.file != file {
            file = &entry.file;
            let _ = writeln!(text, "{file}: {}", entry.feature);
        }
        render_entry(&mut text, entry);
    }
    let mut mutants: BTreeMap<&str, usize> = BTreeMap::new();
    for name in catalogue.entries.iter().flat_map(Entry::mutants) {
        *mutants.entry(name).or_default() += 1;
    }
    for (name, scenarios) in &mutants {
        let _ = write!(text, "mutant {name}: {scenarios} scenarios must catch it");
        if let Some(planted) = planted {
            let places = planted.get(*name).map_or_else(|| "nowhere".to_owned(), |places| places.join(", "));
            let _ = write!(text, "; planted in {places}");
        }
        text.push('\n');
    }
    let steps: usize = catalogue.entries.iter().map(|entry| entry.scenario.steps.len()).sum();
    let files: BTreeSet<_> = catalogue.entries.iter().map(|entry| &entry.file).collect();
    let _ = writeln!(
        text,
        "{} features, {} scenarios, {steps} steps, {} named defects",
        files.len(),
        catalogue.entries.len(),
        mutants.len(),
    );
    text
}

fn render_entry(text: &mut String, entry: &Entry) {
    let needs: Vec<_> = entry.needs().chain(entry.binaries()).map(|need| format!("@{need}")).collect();
    let mutants: Vec<_> = entry.mutants().collect();
    let gherkin::Scenario { name, position, .. } = &entry.scenario;
    let _ = write!(text, "  {} (line {}) {name}", entry.id, position.line);
    if !needs.is_empty() {
        let _ = write!(text, "  needs {}", needs.join(" "));
    }
    if !mutants.is_empty() {
        let _ = write!(text, "  catches {}", mutants.join(" "));
    }
    text.push('\n');
    for step in &entry.scenario.steps {
        let _ = writeln!(text, "      {} {}", step.keyword.trim(), step.value);
    }
}
