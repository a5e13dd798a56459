// SPDX-License-Identifier: Apache-2.0
//! Copies of scenarios: those that are selected, with a defect, one of several repetitions. A tag of the copied feature tells them apart where cucumber hands
//! a scenario out.

use std::collections::BTreeSet;

use cucumber::gherkin;

use super::{Catalogue, Entry};
use crate::stress;
use crate::verdict::Record;

/// Scenarios that each defect is played against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// All that name it.
    EveryScenario,
    /// The first that names it: the others mostly catch it in the same way.
    OneScenario,
}

/// The prefix of the tag that a feature bears which is played with a defect. No file has it.
const PLAYS: &str = "plays:";

/// The prefix of the tag that a feature bears which is one of several repetitions. No file has it.
const REPEATS: &str = "repeats:";

/// How a copy of scenarios is played.
#[derive(Debug, Clone, Copy)]
pub(super) enum Copied<'a> {
    AsItIs,
    WithDefect(&'a str),
    Repetition(u16),
}

impl Copied<'_> {
    /// Tag of the copy's features, by which scenarios that cucumber hands out are told apart.
    fn tag(self) -> Option<String> {
        match self {
            Self::AsItIs => None,
            Self::WithDefect(name) => Some(format!("{PLAYS}{name}")),
            Self::Repetition(number) => Some(format!("{REPEATS}{number}")),
        }
    }
}

impl Catalogue {
    /// Entry of a scenario that cucumber hands out.
    #[must_use]
    pub fn find(&self, feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> Option<&Entry> {
        let path = feature.path.as_deref()?;
        let mutant = feature.tags.iter().find_map(|tag| tag.strip_prefix(PLAYS));
        let repetition = feature.tags.iter().find_map(|tag| tag.strip_prefix(REPEATS)?.parse().ok());
        self.entries.iter().find(|entry| {
            entry.repetition == repetition
                && entry.scenario.position == scenario.position
                && entry.scenario.name == scenario.name
                && path.ends_with(&entry.file)
                && entry.mutant.as_deref() == mutant
        })
    }

    /// The scenarios that name one of these defects: each once as it is, unless that is among the controls already, and once with each that it names.
    #[must_use]
    pub fn with_mutants(&self, names: &[String], depth: Depth, controls: &[Record]) -> Self {
        let against = |name: &str| {
            let named = self.entries.iter().filter(|entry| entry.mutants().any(|named| named == name));
            let ids = named.map(|entry| &entry.id);
            match depth {
                Depth::EveryScenario => ids.collect::<BTreeSet<_>>(),
                Depth::OneScenario => ids.take(1).collect(),
            }
        };
        let trials: Vec<_> = names.iter().map(|name| (name, against(name))).collect();
        let is_due = |entry: &Entry| {
            trials.iter().any(|(_, ids)| ids.contains(&entry.id))
                && !controls.iter().any(|control| control.id == entry.id)
        };
        let mut all = self.played(Copied::AsItIs, &is_due);
        for (name, ids) in &trials {
            all.extend(self.played(Copied::WithDefect(name), &|entry| ids.contains(&entry.id)));
        }
        all
    }

    /// All scenarios so many times, one repetition of all after the other.
    #[must_use]
    pub fn repeated(&self, times: u16) -> Self {
        let mut all = Self { features: Vec::new(), entries: Vec::new() };
        for number in 1..=times {
            all.extend(self.played(Copied::Repetition(number), &|_| true));
        }
        all
    }

    /// Some scenarios once more, as a repetition of this number.
    #[must_use]
    pub fn again(&self, ids: &BTreeSet<String>, number: u16) -> Self {
        self.played(Copied::Repetition(number), &|entry| ids.contains(&entry.id))
    }

    fn extend(&mut self, more: Self) {
        self.features.extend(more.features);
        self.entries.extend(more.entries);
    }

    /// Copies of wanted scenarios.
    pub(super) fn played(&self, how: Copied<'_>, wanted: &dyn Fn(&Entry) -> bool) -> Self {
        let mut part = Self { features: Vec::new(), entries: Vec::new() };
        for feature in &self.features {
            let mut copy = feature.clone();
            copy.scenarios.retain(|scenario| self.find(feature, scenario).is_some_and(wanted));
            copy.tags.extend(how.tag());
            if !copy.scenarios.is_empty() {
                part.features.push(copy);
            }
        }
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            let mut copy = entry.clone();
            match how {
                Copied::AsItIs => {}
                Copied::WithDefect(name) => {
                    copy.id = format!("{}@{name}", entry.id);
                    copy.mutant = Some(name.to_owned());
                }
                Copied::Repetition(number) => {
                    copy.id = stress::id(&entry.id, number);
                    copy.repetition = Some(number);
                }
            }
            part.entries.push(copy);
        }
        part
    }
}
