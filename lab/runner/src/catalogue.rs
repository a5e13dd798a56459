// SPDX-License-Identifier: Apache-2.0
//! The features: found, parsed, expanded and selected. One scenario of the catalogue is one row of examples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cucumber::feature::Ext as _;
use cucumber::gherkin::{self, GherkinEnv, tagexpr::TagOperation};
use cucumber::tag::Ext as _;

use crate::back_ends;
use crate::binaries::OPTIONAL;
use crate::cli::Selection;
use crate::portable::MILLRACE;
use crate::verdict::{Record, Verdict};

/// Needs that a tag may name.
pub const NEEDS: [&str; 7] =
    ["real-kernel", "ipv6", "any-uid", "iptables-tools", "own-users", "fake-kernel", "immutable"];

/// Scenarios that each defect is played against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// All that name it.
    EveryScenario,
    /// The first that names it: the others mostly catch it in the same way.
    OneScenario,
}

/// The tag of a scenario that needs the machine for itself: cucumber runs it alone.
const SERIAL: &str = "serial";
/// Prefix of tags that name a defect which the scenario must catch.
const MUTANT: &str = "mutant:";

/// The prefix of the tag that a feature bears which is played with a defect. No file has it.
const PLAYS: &str = "plays:";

/// A selected scenario.
#[derive(Debug, Clone)]
pub struct Entry {
    /// `redirection/outbound:12`; its second copy `redirection/outbound:12.2`; with a defect `redirection/outbound:12@no-ipv6`
    pub id: String,
    /// Directory of the feature.
    pub group: String,
    pub feature: String,
    /// The feature file, relative to the workspace.
    pub file: String,
    /// The scenario, placeholders filled in.
    pub scenario: gherkin::Scenario,
    /// All tags, inherited ones included.
    pub tags: Vec<String>,
    /// Defect that it is played with.
    pub mutant: Option<String>,
}

/// Needs of a scenario with these tags.
pub fn needs(tags: &[String]) -> impl Iterator<Item = &str> {
    tags.iter().map(String::as_str).filter(|tag| NEEDS.contains(tag))
}

impl Entry {
    /// The optional binaries of the system under test that it needs, by its tags.
    pub fn binaries(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(String::as_str).filter(|tag| OPTIONAL.contains(tag))
    }

    /// Needs, by its tags.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        needs(&self.tags)
    }

    /// Defects that it must catch.
    pub fn mutants(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().filter_map(|tag| tag.strip_prefix(MUTANT))
    }

    /// Record with a verdict and nothing else yet.
    #[must_use]
    pub fn record(&self, verdict: Verdict, reason: Option<String>) -> Record {
        Record {
            id: self.id.clone(),
            group: self.group.clone(),
            feature: self.feature.clone(),
            name: self.scenario.name.clone(),
            file: self.file.clone(),
            line: self.scenario.position.line,
            tags: self.tags.clone(),
            mutant: self.mutant.clone(),
            verdict,
            reason,
            step: None,
            step_kind: None,
            seconds: 0.0,
            notes: Vec::new(),
            back_ends: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

/// The features below a directory, with the scenarios that a selection names.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// The features; scenarios that were not selected are gone.
    pub features: Vec<gherkin::Feature>,
    /// The selected scenarios, in the order of the files.
    pub entries: Vec<Entry>,
}

impl Catalogue {
    /// Reads all features of a workspace and keeps what is selected.
    pub fn read(root: &Path, selection: &Selection) -> anyhow::Result<Self> {
        let tags = selection.tags.as_deref().map(parse_tags).transpose()?;
        let places = selection.only.iter().map(|text| parse_place(text)).collect::<Result<Vec<_>, _>>()?;
        let mut unnamed: Vec<_> = places.iter().zip(&selection.only).collect();
        let mut catalogue = Self { features: Vec::new(), entries: Vec::new() };
        for path in feature_files(&root.join("features"))? {
            if !below(&path, selection.feature.as_deref(), root)? {
                continue;
            }
            let feature = parse(&path)?;
            if !feature.rules.is_empty() {
                bail!("{}: the keyword Rule is not used here: one behaviour a file", path.display());
            }
            for (copy, mut feature) in back_ends::expand(feature).into_iter().enumerate() {
                let scenarios = std::mem::take(&mut feature.scenarios);
                for scenario in scenarios {
                    let entry = entry(root, &path, &feature, (&scenario, copy))?;
                    unnamed.retain(|(place, _)| !place.names(&entry));
                    let wanted = tags.as_ref().is_none_or(|tags| tags.eval(&entry.tags))
                        && (places.is_empty() || places.iter().any(|place| place.names(&entry)));
                    if wanted {
                        feature.scenarios.push(scenario);
                        catalogue.entries.push(entry);
                    }
                }
                if !feature.scenarios.is_empty() {
                    catalogue.features.push(feature);
                }
            }
        }
        if let Some((_, text)) = unnamed.first() {
            bail!(
                "--only {text}: no scenario is there: a line is that of a `Scenario:`, of an outline or of a row of it"
            );
        }
        Ok(catalogue)
    }

    /// Entry of a scenario that cucumber hands out.
    #[must_use]
    pub fn find(&self, feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> Option<&Entry> {
        let path = feature.path.as_deref()?;
        let mutant = feature.tags.iter().find_map(|tag| tag.strip_prefix(PLAYS));
        self.entries.iter().find(|entry| {
            entry.scenario.position == scenario.position
                && entry.scenario.name == scenario.name
                && path.ends_with(&entry.file)
                && entry.mutant.as_deref() == mutant
        })
    }

    /// The scenarios that name one of these defects: each once as it is, and once with each that it names.
    #[must_use]
    pub fn with_mutants(&self, names: &[String], depth: Depth) -> Self {
        let against = |name: &str| {
            let named = self.entries.iter().filter(|entry| entry.mutants().any(|named| named == name));
            let ids = named.map(|entry| &entry.id);
            match depth {
                Depth::EveryScenario => ids.collect::<BTreeSet<_>>(),
                Depth::OneScenario => ids.take(1).collect(),
            }
        };
        let trials: Vec<_> = names.iter().map(|name| (name, against(name))).collect();
        let mut all = self.played(None, &|entry| trials.iter().any(|(_, ids)| ids.contains(&entry.id)));
        for (name, ids) in &trials {
            let played = self.played(Some(name), &|entry| ids.contains(&entry.id));
            all.features.extend(played.features);
            all.entries.extend(played.entries);
        }
        all
    }

    /// Wanted scenarios, played with a defect or without.
    fn played(&self, mutant: Option<&str>, wanted: &dyn Fn(&Entry) -> bool) -> Self {
        let mut part = Self { features: Vec::new(), entries: Vec::new() };
        for feature in &self.features {
            let mut copy = feature.clone();
            copy.scenarios.retain(|scenario| self.find(feature, scenario).is_some_and(wanted));
            copy.tags.extend(mutant.map(|name| format!("{PLAYS}{name}")));
            if !copy.scenarios.is_empty() {
                part.features.push(copy);
            }
        }
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            let mut copy = entry.clone();
            if let Some(name) = mutant {
                copy.id = format!("{}@{name}", entry.id);
                copy.mutant = Some(name.to_owned());
            }
            part.entries.push(copy);
        }
        part
    }

    /// The groups, in order of first appearance, with the number of their scenarios.
    #[must_use]
    pub fn groups(&self) -> Vec<(String, usize)> {
        let mut groups: Vec<(String, usize)> = Vec::new();
        for entry in &self.entries {
            match groups.iter_mut().find(|(name, _)| *name == entry.group) {
                Some((_, count)) => *count += 1,
                None => groups.push((entry.group.clone(), 1)),
            }
        }
        groups
    }
}

/// A line of a feature, as `--only` names it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    file: String,
    line: usize,
    copy: Option<usize>,
}

impl Place {
    /// True if this names the entry: by its own line, or by the line of the outline that its row belongs to.
    fn names(&self, entry: &Entry) -> bool {
        let (stem, place) = entry.id.rsplit_once(':').unwrap_or((&entry.id, ""));
        if let Some(copy) = self.copy {
            return self.file() == stem && place == format!("{}.{copy}", self.line);
        }
        let outline = entry.scenario.steps.first().map_or(0, |step| step.position.line.saturating_sub(1));
        self.file() == stem && (self.line == entry.scenario.position.line || self.line == outline)
    }

    fn file(&self) -> &str {
        let file = self.file.trim_end_matches(".feature");
        file.strip_prefix("features/").unwrap_or(file)
    }
}

fn parse_place(text: &str) -> anyhow::Result<Place> {
    let (file, line) =
        text.rsplit_once(':').with_context(|| format!("--only {text}: no `:LINE` at its end"))?;
    let (line, copy) = line.split_once('.').map_or((line, None), |(line, copy)| (line, Some(copy)));
    let number =
        |digits: &str| digits.parse().with_context(|| format!("--only {text}: {digits:?} is not a line"));
    Ok(Place { file: file.to_owned(), line: number(line)?, copy: copy.map(number).transpose()? })
}

fn parse_tags(text: &str) -> anyhow::Result<TagOperation> {
    text.parse().map_err(|error| anyhow::anyhow!("--tags {text:?}: {error}"))
}

fn below(path: &Path, wanted: Option<&Path>, root: &Path) -> anyhow::Result<bool> {
    let Some(wanted) = wanted else { return Ok(true) };
    let found = [wanted.to_owned(), root.join(wanted), root.join("features").join(wanted)]
        .into_iter()
        .find_map(|candidate| candidate.canonicalize().ok())
        .with_context(|| format!("--feature {}: no such file or directory", wanted.display()))?;
    Ok(path.canonicalize()?.starts_with(found))
}

/// Feature files below a directory, sorted by path.
fn feature_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot list {}", at.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "feature") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn parse(path: &Path) -> anyhow::Result<gherkin::Feature> {
    let feature = gherkin::Feature::parse_path(path, GherkinEnv::default())
        .with_context(|| format!("cannot parse {}", path.display()))?;
    feature.expand_examples().with_context(|| format!("cannot fill in the examples of {}", path.display()))
}

fn entry(
    root: &Path,
    path: &Path,
    feature: &gherkin::Feature,
    (scenario, copy): (&gherkin::Scenario, usize),
) -> anyhow::Result<Entry> {
    let file = path.strip_prefix(root)?.to_string_lossy().into_owned();
    let stem = file.trim_start_matches("features/").trim_end_matches(".feature");
    let group = stem.rsplit_once('/').map_or("features", |(group, _)| group).to_owned();
    let mut tags = vec![group.clone()];
    for tag in feature.tags.iter().chain(&scenario.tags) {
        let known = NEEDS.contains(&tag.as_str()) || OPTIONAL.contains(&tag.as_str());
        let marks = [SERIAL, back_ends::TAG, MILLRACE].contains(&tag.as_str()) || tag.starts_with(MUTANT);
        if !known && !marks {
            bail!(
                "{file}:{}: the tag @{tag} is no need that anything probes, no binary, not @serial, @millrace or @every-back-end, and names no defect",
                scenario.position.line
            );
        }
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    let line = scenario.position.line;
    let id = if copy == 0 { format!("{stem}:{line}") } else { format!("{stem}:{line}.{copy}") };
    Ok(Entry {
        id,
        group,
        feature: feature.name.clone(),
        file,
        scenario: scenario.clone(),
        tags,
        mutant: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURE: &str = "\
@real-kernel
Feature: A thing

  Scenario: plain
    Given x

  @mutant:late
  Scenario Outline: row <a>
    Given <a>

    @ipv6
    Examples:
      | a   |
      | one |
      | two |
";

    fn catalogue(selection: &Selection) -> anyhow::Result<Catalogue> {
        let root = tempfile::tempdir()?;
        std::fs::create_dir_all(root.path().join("features/group"))?;
        std::fs::write(root.path().join("features/group/thing.feature"), FEATURE)?;
        Catalogue::read(root.path(), selection)
    }

    fn ids(selection: &Selection) -> Vec<String> {
        catalogue(selection).unwrap().entries.into_iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn each_row_of_examples_is_a_scenario_with_a_line_of_its_own() {
        assert_eq!(ids(&Selection::default()), ["group/thing:4", "group/thing:14", "group/thing:15"]);
    }

    #[test]
    fn tags_are_inherited_and_tell_needs_from_mutants() {
        let all = catalogue(&Selection::default()).unwrap();
        let row = &all.entries[1];
        assert_eq!(row.needs().collect::<Vec<_>>(), ["real-kernel", "ipv6"]);
        assert_eq!(row.mutants().collect::<Vec<_>>(), ["late"]);
        assert_eq!(all.groups(), [("group".to_owned(), 3)]);
    }

    #[test]
    fn a_tag_expression_selects_and_the_group_is_a_tag() {
        let select = |tags: &str| Selection { tags: Some(tags.to_owned()), ..Selection::default() };
        assert_eq!(ids(&select("@group and not @ipv6")), ["group/thing:4"]);
        assert!(catalogue(&select("@a and")).is_err());
    }

    #[test]
    fn only_selects_a_row_or_a_whole_outline() {
        let select = |only: &str| Selection { only: vec![only.to_owned()], ..Selection::default() };
        assert_eq!(ids(&select("group/thing:15")), ["group/thing:15"]);
        assert_eq!(ids(&select("features/group/thing.feature:8")), ["group/thing:14", "group/thing:15"]);
        assert!(catalogue(&select("group/thing")).is_err());
        let both = ["group/thing:15", "group/thing:9"].map(str::to_owned).to_vec();
        let error = catalogue(&Selection { only: both, ..Selection::default() }).unwrap_err().to_string();
        assert!(error.starts_with("--only group/thing:9: no scenario is there"), "{error}");
    }

    #[test]
    fn a_scenario_is_played_as_it_is_and_with_each_defect_that_it_names() {
        let names = ["late".to_owned(), "other".to_owned()];
        let everything = catalogue(&Selection::default()).unwrap();
        let all = everything.with_mutants(&names, Depth::EveryScenario);
        let ids: Vec<_> = all.entries.iter().map(|entry| entry.id.as_str()).collect();
        let wanted = ["group/thing:14", "group/thing:15", "group/thing:14@late", "group/thing:15@late"];
        assert_eq!(ids, wanted);
        let found = all.features.iter().flat_map(|feature| {
            feature.scenarios.iter().map(|scenario| all.find(feature, scenario).unwrap().id.as_str())
        });
        assert_eq!(found.collect::<Vec<_>>(), wanted);
        let first = everything.with_mutants(&names, Depth::OneScenario);
        let ids: Vec<_> = first.entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, ["group/thing:14", "group/thing:14@late"]);
    }

    #[test]
    fn what_holds_on_every_back_end_is_played_on_each() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("features/group")).unwrap();
        let text = "Feature: A thing\n\n  @every-back-end @mutant:late\n  Scenario: plain\n    Given x\n    Then y\n";
        std::fs::write(root.path().join("features/group/thing.feature"), text).unwrap();
        let read = |only: &[&str]| {
            let only = only.iter().map(|&place| place.to_owned()).collect();
            Catalogue::read(root.path(), &Selection { only, ..Selection::default() }).unwrap()
        };
        let all = read(&[]);
        let ids: Vec<_> = all.entries.iter().map(|entry| entry.id.as_str()).collect();
        let numbers = ["4", "4.1", "4.2", "4.3", "4.4", "4.5"].map(|number| format!("group/thing:{number}"));
        assert_eq!(ids, numbers);
        let found = all.features.iter().map(|feature| all.find(feature, &feature.scenarios[0]).unwrap());
        assert_eq!(found.map(|entry| entry.id.as_str()).collect::<Vec<_>>(), numbers);
        let steps =
            |entry: &Entry| entry.scenario.steps.iter().map(|step| step.value.clone()).collect::<Vec<_>>();
        assert_eq!(steps(&all.entries[0]), ["x", "y"]);
        let last = &all.entries[5];
        assert_eq!(last.needs().collect::<Vec<_>>(), ["fake-kernel", "iptables-tools"]);
        assert_eq!(last.scenario.name, "plain (fallen back to iptables-legacy)");
        let set = "its namespace holds one set of rules, that of iptables-legacy";
        assert_eq!(steps(last), ["a node whose kernel lacks nf-tables", "x", "y", set]);
        assert_eq!(read(&["group/thing:4.2"]).entries.len(), 1);
        assert_eq!(read(&["group/thing:4"]).entries.len(), 6);
    }

    /// Pods of the mesh that have both families in the end, by the scenario's steps.
    fn of_both_families(feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> bool {
        let background = feature.background.iter().flat_map(|background| &background.steps);
        let mut meshed = false;
        let mut both = false;
        for step in background.chain(&scenario.steps) {
            if step.value.starts_with("pod \"") {
                meshed = step.value.ends_with("of the mesh");
            }
            if meshed && let Some(families) = step.value.strip_prefix("its addresses are ") {
                both = families.contains(" and ");
            }
        }
        both
    }

    #[test]
    fn every_redirection_of_a_pod_of_both_families_is_played_on_every_back_end() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let selection = Selection { feature: Some("redirection".into()), ..Selection::default() };
        let all = Catalogue::read(&root, &selection).unwrap();
        let mut counted = 0;
        for feature in &all.features {
            // There an init container writes the rules, whatever the node's back end is: features/init/back-ends.feature.
            let by_itself =
                feature.path.as_ref().is_some_and(|path| path.ends_with("init-container.feature"));
            for scenario in feature.scenarios.iter().filter(|scenario| of_both_families(feature, scenario)) {
                let tagged = scenario.tags.iter().any(|tag| tag == back_ends::TAG);
                assert!(tagged || by_itself, "{:?} lacks @{}", scenario.name, back_ends::TAG);
                counted += usize::from(tagged);
            }
        }
        assert!(counted >= 6 * 8, "{counted}");
    }

    #[test]
    fn a_feature_that_is_not_there_is_an_error() {
        let selection = Selection { feature: Some("elsewhere".into()), ..Selection::default() };
        assert!(catalogue(&selection).is_err());
    }
}
