// SPDX-License-Identifier: Apache-2.0
//! The vocabulary of the features: every step, its description, how often features use it, and an example. `cnilab steps` prints it, and
//! `docs/steps.md` is generated from it.

mod phrase;
mod render;

pub use phrase::phrase;
pub use render::{markdown, text};

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cucumber::codegen::{Regex, StepConstructor, WorldInventory, inventory};
use cucumber::gherkin::StepType;

use crate::catalogue::Catalogue;
use crate::steps::world::LabWorld;
use crate::sweep;

/// Steps of one source file.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    /// First sentence of the file's documentation.
    pub title: String,
    pub steps: Vec<StepEntry>,
}

/// A step of the vocabulary.
#[derive(Debug, PartialEq, Eq)]
pub struct StepEntry {
    /// `Given`, `When`, `Then`, in this order.
    pub keywords: Vec<&'static str>,
    /// Its pattern, readable: see [`phrase`].
    pub phrase: String,
    /// Its doc comment; empty if the phrase says it all.
    pub description: String,
    /// Number of uses in the catalogue. Backgrounds count once a feature.
    pub uses: usize,
    /// First use: a step, and its place as in `--only`.
    pub example: Option<(String, String)>,
}

/// A registered pattern: where its attribute is, and what it matches.
struct Pattern {
    keyword: (StepType, &'static str),
    line: u32,
    regex: Regex,
}

/// Collects the vocabulary by source file, in the order of the sources.
///
/// # Errors
/// A source file of the steps cannot be read, or a pattern cannot be parsed.
pub fn topics(root: &Path, catalogue: &Catalogue) -> anyhow::Result<Vec<Topic>> {
    let mut used = self::used(catalogue);
    for name in sweep::names(root)? {
        used.extend(self::used(&Catalogue::of_sweep(root, &name, &[])?));
    }
    patterns().into_iter().map(|(file, patterns)| topic(&root.join(file), &patterns, &used)).collect()
}

fn patterns() -> BTreeMap<&'static str, Vec<Pattern>> {
    let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut add = |keyword, (location, regex): (cucumber::step::Location, Regex)| {
        files.entry(location.path).or_default().push(Pattern { keyword, line: location.line, regex });
    };
    for step in inventory::iter::<<LabWorld as WorldInventory>::Given> {
        let (location, regex, _) = step.inner();
        add((StepType::Given, "Given"), (location, regex()));
    }
    for step in inventory::iter::<<LabWorld as WorldInventory>::When> {
        let (location, regex, _) = step.inner();
        add((StepType::When, "When"), (location, regex()));
    }
    for step in inventory::iter::<<LabWorld as WorldInventory>::Then> {
        let (location, regex, _) = step.inner();
        add((StepType::Then, "Then"), (location, regex()));
    }
    files
}

/// Steps of the catalogue with their places, in order.
fn used(catalogue: &Catalogue) -> Vec<(StepType, String, String)> {
    let backgrounds = catalogue.features.iter().flat_map(|feature| {
        let place = feature.path.as_deref().unwrap_or(Path::new("")).file_stem().unwrap_or_default();
        let place = place.to_string_lossy().into_owned();
        let steps = feature.background.iter().flat_map(|background| &background.steps);
        steps.map(move |step| (step.ty, step.value.clone(), place.clone()))
    });
    let scenarios = catalogue.entries.iter().flat_map(|entry| {
        entry.scenario.steps.iter().map(|step| (step.ty, step.value.clone(), entry.id.clone()))
    });
    scenarios.chain(backgrounds).collect()
}

fn topic(file: &Path, patterns: &[Pattern], used: &[(StepType, String, String)]) -> anyhow::Result<Topic> {
    let source = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines: Vec<_> = source.lines().collect();
    // Several keywords of one function share its doc comment, which begins its block of lines.
    let mut steps: BTreeMap<(usize, &str), StepEntry> = BTreeMap::new();
    for pattern in patterns {
        let begin = block(&lines, pattern.line);
        let phrase = phrase(pattern.regex.as_str())?;
        let entry = steps.entry((begin, pattern.regex.as_str())).or_insert_with(|| StepEntry {
            keywords: Vec::new(),
            phrase,
            description: docs(&lines[begin..], "///"),
            uses: 0,
            example: None,
        });
        entry.keywords.push(pattern.keyword.1);
        let uses =
            used.iter().filter(|(ty, text, _)| *ty == pattern.keyword.0 && pattern.regex.is_match(text));
        for (_, text, place) in uses {
            entry.uses += 1;
            entry.example.get_or_insert_with(|| (text.clone(), place.clone()));
        }
    }
    let title = lines.iter().position(|line| line.starts_with("//!")).unwrap_or(lines.len());
    let title = docs(&lines[title..], "//!");
    let title = title.split_once(". ").map_or(title.as_str(), |(first, _)| first).trim_end_matches('.');
    Ok(Topic { title: title.to_owned(), steps: steps.into_values().collect() })
}

/// First line of the block of lines without a gap that has this one, counted from 1.
fn block(lines: &[&str], line: u32) -> usize {
    let line = usize::try_from(line).unwrap_or(0).min(lines.len());
    lines[..line].iter().rposition(|line| line.is_empty()).map_or(0, |gap| gap + 1)
}

/// Text of a comment that the lines begin with.
fn docs(lines: &[&str], mark: &str) -> String {
    let lines = lines.iter().map_while(|line| line.strip_prefix(mark));
    lines.map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Selection;
    use crate::locate::Workspace;

    /// `UPDATE=1` writes the page.
    #[test]
    fn the_page_of_steps_is_current_and_every_step_is_used() {
        let root = Workspace::find().unwrap().root;
        let catalogue = Catalogue::read(&root, &Selection::default()).unwrap();
        let topics = topics(&root, &catalogue).unwrap();
        let unused = topics.iter().flat_map(|topic| &topic.steps).filter(|step| step.uses == 0);
        assert_eq!(unused.map(|step| &step.phrase).collect::<Vec<_>>(), Vec::<&String>::new());
        let (page, text) = (root.join("docs/steps.md"), markdown(&topics));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&page, &text).unwrap();
        }
        let there = fs::read_to_string(&page).unwrap_or_default();
        let differs = there.lines().zip(text.lines()).find(|(there, want)| there != want);
        assert!(
            there == text,
            "docs/steps.md: not current ({differs:?}); UPDATE=1 cargo test -p cnilab vocabulary"
        );
    }

    #[test]
    fn a_comment_ends_at_its_first_empty_line() {
        let lines = ["//! One. Two", "//! three.", "//!", "//! four"];
        assert_eq!(docs(&lines, "//!"), "One. Two three.");
        assert_eq!(docs(&["fn x() {}"], "///"), "");
    }

    #[test]
    fn a_step_begins_after_the_last_empty_line() {
        let lines = ["fn a() {}", "", "/// Doc.", "#[given(\"x\")]", "#[when(\"x\")]", "fn b() {}"];
        assert_eq!([1, 4, 5].map(|line| block(&lines, line)), [0, 2, 2]);
    }
}
