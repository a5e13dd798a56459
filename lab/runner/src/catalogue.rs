// SPDX-License-Identifier: Apache-2.0
//! The features: found, parsed, expanded and selected. One scenario of the catalogue is one row of examples.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cucumber::feature::Ext as _;
use cucumber::gherkin::{self, GherkinEnv};
use cucumber::tag::Ext as _;
use serde::{Deserialize, Serialize};

use self::copies::Copied;
pub use self::copies::Depth;
use self::named::Place;
use crate::back_ends;
use crate::binaries::OPTIONAL;
use crate::cli::{RunArgs, Selection, Shard};
use crate::immutable::IMMUTABLE;
use crate::names::{self, Aliases};
use crate::portable::MILLRACE;
use crate::sweep::Sweep;
use crate::verdict::{Record, Verdict};

mod copies;
#[cfg(test)]
mod lint;
mod named;
mod tags;
mod whole;

/// Needs that a tag may name.
pub const NEEDS: [&str; 7] =
    ["real-kernel", "ipv6", "any-uid", "iptables-tools", "own-users", "fake-kernel", IMMUTABLE];

/// The tag of a scenario that needs the machine for itself. Cucumber plays the first of a run alone, and would begin a second one beside others, so
/// no more than one has it.
const SERIAL: &str = "serial";
/// The tag of what keeps a core at work all the time.
const BUSY: &str = "busy";
/// The tag of what waits long.
const LONG: &str = "long";
/// Part of the other scenarios that those which wait long are spread over.
const SPREAD: f64 = 0.65;
/// Prefix of tags that name a defect which the scenario must catch.
const MUTANT: &str = "mutant:";

/// A selected scenario.
#[derive(Debug, Clone)]
pub struct Entry {
    /// `redirection/dns/questions-over-and-ipv6[tcp]`; its copy for a back end `…[tcp]+nft`; with a defect `…[tcp]@dns-not-captured`
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
    /// Number of this repetition, from 1.
    pub repetition: Option<u16>,
}

/// Features of one scenario each in the order in which they are begun: what keeps a core busy, then the others. Those of a directory wait alike, so each
/// directory's are spread evenly, and what waits long over the first part. So no core is idle while all that runs waits, and none waits alone at the end.
#[must_use]
pub fn in_turn(features: Vec<gherkin::Feature>) -> Vec<gherkin::Feature> {
    let single = features.into_iter().flat_map(|mut feature| {
        let scenarios = std::mem::take(&mut feature.scenarios);
        scenarios.into_iter().map(move |one| gherkin::Feature { scenarios: vec![one], ..feature.clone() })
    });
    let has = |feature: &gherkin::Feature, tag: &str| {
        feature.tags.iter().chain(&feature.scenarios[0].tags).any(|own| own == tag)
    };
    let (mut begun, others): (Vec<_>, Vec<_>) = single.partition(|one| has(one, BUSY));
    let mut alike: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in others {
        let directory = one.path.as_deref().and_then(Path::parent).map(Path::to_owned);
        alike.entry((has(&one, LONG), directory)).or_default().push(one);
    }
    let over = |((is_long, _), all): ((bool, _), Vec<_>)| {
        let step = if is_long { SPREAD } else { 1.0 } / all.len() as f64;
        all.into_iter().enumerate().map(move |(number, one)| ((number as f64 + 0.5) * step, one))
    };
    let mut rest: Vec<_> = alike.into_iter().flat_map(over).collect();
    rest.sort_by(|one, other| one.0.total_cmp(&other.0));
    begun.extend(rest.into_iter().map(|(_, one)| one));
    begun
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
            class: None,
            step: None,
            step_kind: None,
            seconds: 0.0,
            steps: Vec::new(),
            runs: None,
            notes: Vec::new(),
            excused: BTreeMap::new(),
            back_ends: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

/// Scenarios of the suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// Those of a selection.
    pub selected: Vec<String>,
    /// All others of the suite.
    pub left_out: Vec<String>,
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
    /// What a run plays: features, or the cells of a sweep.
    pub fn of(root: &Path, args: &RunArgs) -> anyhow::Result<Self> {
        match &args.sweep {
            Some(wanted) => Self::of_sweep(root, &wanted.name, &wanted.only),
            None => Self::read(root, &args.selection),
        }
    }

    /// The cells of a sweep.
    pub fn of_sweep(root: &Path, name: &str, only: &[String]) -> anyhow::Result<Self> {
        let path = root.join(format!("features/sweep/{name}.feature"));
        let text = Sweep::read(root, name)?.feature(name, only);
        let mut feature = gherkin::Feature::parse(&text, GherkinEnv::default())
            .with_context(|| format!("cannot parse the steps of the sweep {name}"))?;
        feature.path = Some(path.clone());
        let ends = names::of(&feature)?;
        let entries = feature.scenarios.iter().map(|scenario| {
            let end = self::name(&ends, scenario, 0);
            entry(root, &path, &feature, (scenario, &end))
        });
        Ok(Self { entries: entries.collect::<anyhow::Result<_>>()?, features: vec![feature] })
    }

    /// Reads all features of a workspace and keeps what is selected.
    pub fn read(root: &Path, selection: &Selection) -> anyhow::Result<Self> {
        let all = Self::read_all(root, selection.feature.as_deref())?;
        let tags = selection.tags.as_deref().map(|text| tags::parse(text, &all, root)).transpose()?;
        let named = all.named(root, &selection.clone().resolved()?.only)?;
        let wanted = |entry: &Entry| {
            tags.as_ref().is_none_or(|tags| tags.eval(&entry.tags))
                && named.as_ref().is_none_or(|named| named.contains(&entry.id))
        };
        let selected = all.played(Copied::AsItIs, &wanted);
        match selection.shard {
            // A part without a scenario has no report, and all of them are wanted when they are merged.
            Some(Shard { number, of }) if of > selected.entries.len() && !selected.entries.is_empty() => {
                anyhow::bail!(
                    "--shard {number}/{of}: {} scenarios are selected, so there are no more parts",
                    selected.entries.len()
                )
            }
            Some(shard) => Ok(selected.part(shard)),
            None => Ok(selected),
        }
    }

    /// Every n-th scenario: neighbours take a similar time, so that parts do as well.
    fn part(&self, shard: Shard) -> Self {
        let in_turn = self.entries.iter().skip(shard.number - 1).step_by(shard.of);
        let ids: HashSet<&str> = in_turn.map(|entry| entry.id.as_str()).collect();
        self.played(Copied::AsItIs, &|entry| ids.contains(entry.id.as_str()))
    }

    /// Reads the features of a workspace, or those below a path.
    fn read_all(root: &Path, wanted: Option<&Path>) -> anyhow::Result<Self> {
        let mut catalogue = Self { features: Vec::new(), entries: Vec::new() };
        for path in feature_files(&root.join("features"))? {
            if !below(&path, wanted, root)? {
                continue;
            }
            let (feature, ends) = parse(&path)?;
            for (copy, feature) in back_ends::expand(feature).into_iter().enumerate() {
                for scenario in &feature.scenarios {
                    let end = name(&ends, scenario, copy);
                    catalogue.entries.push(entry(root, &path, &feature, (scenario, &end))?);
                }
                catalogue.features.push(feature);
            }
        }
        whole::distinct(&catalogue.entries)?;
        Ok(catalogue)
    }

    /// Ids of the scenarios that `--only` names; `None` if it names none.
    fn named(&self, root: &Path, only: &[String]) -> anyhow::Result<Option<HashSet<String>>> {
        if only.is_empty() {
            return Ok(None);
        }
        let aliases = Aliases::read(root)?;
        let mut named = HashSet::new();
        for text in only {
            let ids = Place::parse(text, &aliases).ids(&self.entries);
            if ids.is_empty() {
                bail!(
                    "--only {text}: no scenario is there: an id is one that `cnilab list` prints or the beginning of some, a line that of a \
                     `Scenario:`, of an outline or of a row of it"
                );
            }
            named.extend(ids);
        }
        Ok(Some(named))
    }

    /// Ids of these scenarios, and of all others of the suite.
    pub fn ids(&self, root: &Path) -> anyhow::Result<Ids> {
        let selected: Vec<_> = self.entries.iter().map(|entry| entry.id.clone()).collect();
        let own: HashSet<&str> = selected.iter().map(String::as_str).collect();
        let suite = Self::read_all(root, None)?.entries.into_iter().map(|entry| entry.id);
        let left_out = suite.filter(|id| !own.contains(id.as_str())).collect();
        Ok(Ids { selected, left_out })
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

/// A feature, its outlines expanded, and the ends of its scenarios' names by their lines.
fn parse(path: &Path) -> anyhow::Result<(gherkin::Feature, HashMap<usize, String>)> {
    let feature = gherkin::Feature::parse_path(path, GherkinEnv::default())
        .with_context(|| format!("cannot parse {}", path.display()))?;
    whole::check(path, &feature)?;
    let names =
        names::of(&feature).with_context(|| format!("cannot name the scenarios of {}", path.display()))?;
    let feature = feature
        .expand_examples()
        .with_context(|| format!("cannot fill in the examples of {}", path.display()))?;
    Ok((feature, names))
}

/// The end of a scenario's name: title, row and back end.
fn name(ends: &HashMap<usize, String>, scenario: &gherkin::Scenario, copy: usize) -> String {
    let end = ends.get(&scenario.position.line).map_or("", String::as_str);
    format!("{end}{}", back_ends::mark(copy))
}

/// The feature file as ids begin: `redirection/outbound`.
fn stem(file: &str) -> &str {
    file.trim_start_matches("features/").trim_end_matches(".feature")
}

/// The folder of a feature file.
fn folder(stem: &str) -> &str {
    stem.rsplit_once('/').map_or("features", |(folder, _)| folder)
}

fn entry(
    root: &Path,
    path: &Path,
    feature: &gherkin::Feature,
    (scenario, end): (&gherkin::Scenario, &str),
) -> anyhow::Result<Entry> {
    let file = path.strip_prefix(root)?.to_string_lossy().into_owned();
    let stem = stem(&file);
    let group = folder(stem).to_owned();
    let mut tags = vec![group.clone()];
    for tag in feature.tags.iter().chain(&scenario.tags) {
        if !tags::is_known(tag) {
            bail!(
                "{file}:{}: unknown tag @{tag}: what a scenario needs of the machine is one of {}, its binaries beside the plugin of {}; others are @{SERIAL}, @{BUSY}, @{LONG}, @{MILLRACE}, @{} and @{MUTANT}NAME",
                scenario.position.line,
                NEEDS.join(", "),
                OPTIONAL.join(", "),
                back_ends::TAG
            );
        }
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    Ok(Entry {
        id: format!("{stem}{end}"),
        group,
        feature: feature.name.clone(),
        file,
        scenario: scenario.clone(),
        tags,
        mutant: None,
        repetition: None,
    })
}

#[cfg(test)]
mod tests;
