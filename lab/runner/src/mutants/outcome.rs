// SPDX-License-Identifier: Apache-2.0
//! Results of a run by defect, and their machine-readable form: `mutants.json`.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use crate::directory;
use crate::exit::Exit;
use crate::plan::Mutants;
use crate::report::Header;
use crate::verdict::{Record, StepKind, Totals, Verdict};

/// The version of the report's shape; raised when a field changes its meaning.
const SCHEMA: u32 = 5;

/// True if a scenario failed where it may catch a defect: at an expectation, and at the one that the catalogue names.
fn is_asked(played: &Record, named: Option<&str>) -> bool {
    let is_named = |step: &str| played.step.as_deref().is_some_and(|there| there.contains(step));
    played.step_kind.is_some_and(StepKind::is_expectation) && named.is_none_or(is_named)
}

/// Result of a scenario with a defect that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Catch {
    /// It passes without the defect and fails with it.
    Caught,
    /// It fails with it, but not at an expectation, or not at the one that the catalogue names: it never got to ask.
    Elsewhere,
    /// It passes with the defect.
    Survived,
    /// It does not pass without the defect either: it shows nothing.
    RedAnyway,
    Inconclusive,
    /// Cannot run here, or with these binaries.
    Inapplicable,
    /// Left out by an interruption.
    NotRun,
}

impl Catch {
    fn of(control: &Record, played: &Record, named: Option<&str>) -> Self {
        match (control.verdict, played.verdict) {
            (Verdict::Skipped, _) | (_, Verdict::Skipped) => Self::NotRun,
            (Verdict::Inapplicable | Verdict::Unsupported, _) => Self::Inapplicable,
            (Verdict::Pass, Verdict::Fail) if !is_asked(played, named) => Self::Elsewhere,
            (Verdict::Pass, Verdict::Fail) => Self::Caught,
            (Verdict::Pass, Verdict::Pass) => Self::Survived,
            (Verdict::Pass, _) => Self::Inconclusive,
            _ => Self::RedAnyway,
        }
    }

    /// Word in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Elsewhere => "fails at another step",
            Self::Survived => "survived",
            Self::RedAnyway => "does not pass without it",
            Self::Inconclusive => "inconclusive",
            Self::Inapplicable => "inapplicable",
            Self::NotRun => "not run",
        }
    }
}

/// A scenario that names a defect.
#[derive(Debug, Serialize)]
pub struct Trial {
    pub id: String,
    pub name: String,
    /// File and line of the scenario.
    pub place: String,
    /// Result.
    pub catch: Catch,
    /// Step that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_kind: Option<StepKind>,
    /// Observation of that step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Duration with the defect.
    pub seconds: f64,
}

/// Result of a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Every scenario that names it and can run here caught it.
    Caught,
    /// A scenario that names it failed before its expectation.
    Elsewhere,
    /// A scenario that names it passed.
    Survived,
    /// Scenarios name it and the catalogue lacks it.
    Unplanted,
    Unnamed,
    /// A scenario was inconclusive.
    Inconclusive,
    /// No scenario that names it could run, or not all of them did.
    NotRun,
}

/// A defect with its result.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub mutant: String,
    /// Result.
    pub fate: Fate,
    /// Scenarios that name it.
    pub scenarios: Vec<Trial>,
}

impl Outcome {
    fn of(name: &str, records: &[Record], named: Option<&str>) -> Self {
        let played = records.iter().filter(|record| record.mutant.as_deref() == Some(name));
        let scenarios: Vec<Trial> = played.filter_map(|played| trial(played, records, named)).collect();
        let any = |catch| scenarios.iter().any(|trial| trial.catch == catch);
        let fate = if any(Catch::Survived) {
            Fate::Survived
        } else if any(Catch::Elsewhere) {
            Fate::Elsewhere
        } else if any(Catch::RedAnyway) || any(Catch::Inconclusive) {
            Fate::Inconclusive
        } else if any(Catch::NotRun) || !any(Catch::Caught) {
            Fate::NotRun
        } else {
            Fate::Caught
        };
        Self { mutant: name.to_owned(), fate, scenarios }
    }

    fn without_scenarios(name: &str, fate: Fate) -> Self {
        Self { mutant: name.to_owned(), fate, scenarios: Vec::new() }
    }
}

/// Result of a scenario with a defect, compared with its control run. It stands in the records a second time, without one.
fn trial(played: &Record, records: &[Record], named: Option<&str>) -> Option<Trial> {
    let is_control = |record: &&Record| {
        let place = |record: &Record| (record.file.clone(), record.line, record.name.clone());
        record.mutant.is_none() && place(record) == place(played)
    };
    let control = records.iter().find(is_control)?;
    let catch = Catch::of(control, played, named);
    let told = if catch == Catch::RedAnyway { control } else { played };
    Some(Trial {
        id: control.id.clone(),
        name: played.name.clone(),
        place: format!("{}:{}", played.file, played.line),
        catch,
        step: told.step.clone(),
        step_kind: told.step_kind,
        reason: told.reason.clone(),
        seconds: played.seconds,
    })
}

/// The records, and what stands in for the control runs of those that were played with a defect alone.
fn with_controls(records: &[Record], controls: &[Record]) -> Vec<Record> {
    let as_it_is = |played: &Record| {
        let mutant = played.mutant.as_ref()?;
        played.id.strip_suffix(&format!("@{mutant}")).map(str::to_owned)
    };
    let played: HashSet<String> = records.iter().filter_map(as_it_is).collect();
    let known = controls.iter().filter(|control| played.contains(&control.id));
    records.iter().chain(known).cloned().collect()
}

#[derive(Debug, Serialize)]
pub struct MutantReport {
    /// Version of this format.
    pub schema: u32,
    /// Suite, system and environment.
    pub header: Header,
    /// Verdicts of the control runs.
    pub control: Totals,
    pub exit: u8,
    /// Wall-clock time of everything.
    pub seconds: f64,
    /// Defects, by name.
    pub mutants: Vec<Outcome>,
}

impl MutantReport {
    #[must_use]
    pub fn new(header: Header, mutants: &Mutants, records: &[Record], seconds: f64) -> Self {
        let records = &with_controls(records, &mutants.controls);
        let outcome = |name: &String| Outcome::of(name, records, mutants.steps.get(name).map(String::as_str));
        let played = mutants.played.iter().map(outcome);
        let unplanted =
            mutants.unplanted.iter().map(|name| Outcome::without_scenarios(name, Fate::Unplanted));
        let unnamed = mutants.unnamed.iter().map(|name| Outcome::without_scenarios(name, Fate::Unnamed));
        let mut mutants: Vec<_> = played.chain(unplanted).chain(unnamed).collect();
        mutants.sort_by(|a, b| a.mutant.cmp(&b.mutant));
        let control = records.iter().filter(|record| record.mutant.is_none());
        let control = Totals::of(control.map(|record| record.verdict));
        let exit = exit(&mutants).code();
        Self { schema: SCHEMA, header, control, exit, seconds, mutants }
    }

    #[must_use]
    pub fn exit(&self) -> Exit {
        exit(&self.mutants)
    }

    /// Number of defects with this result.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.mutants.iter().filter(|outcome| outcome.fate == fate).count()
    }

    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self)? + "\n";
        directory::write(dir, "mutants.json", json.as_bytes())
    }
}

/// A defect that nobody noticed outweighs a harness that failed elsewhere, and both outweigh what could not run.
fn exit(mutants: &[Outcome]) -> Exit {
    let any = |fates: &[Fate]| mutants.iter().any(|outcome| fates.contains(&outcome.fate));
    let inapplicable = || {
        let mut all = mutants.iter().flat_map(|outcome| &outcome.scenarios);
        all.any(|trial| trial.catch == Catch::Inapplicable)
    };
    if any(&[Fate::Survived, Fate::Elsewhere, Fate::Unplanted, Fate::Unnamed]) {
        Exit::Failed
    } else if any(&[Fate::Inconclusive]) {
        Exit::Inconclusive
    } else if any(&[Fate::NotRun]) || inapplicable() {
        Exit::Partial
    } else {
        Exit::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: usize, mutant: Option<&str>, verdict: Verdict) -> Record {
        Record {
            id: format!("g/f:{line}"),
            group: "g".to_owned(),
            feature: String::new(),
            name: String::new(),
            file: "f".to_owned(),
            line,
            tags: Vec::new(),
            mutant: mutant.map(str::to_owned),
            verdict,
            reason: None,
            class: None,
            step: None,
            step_kind: None,
            seconds: 0.0,
            steps: Vec::new(),
            runs: None,
            notes: Vec::new(),
            excused: std::collections::BTreeMap::new(),
            back_ends: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// The fate of a defect that two scenarios name, each as (without it, with it).
    fn fate(first: (Verdict, Verdict), second: (Verdict, Verdict)) -> (Fate, Exit) {
        let records: Vec<Record> = [(1, first), (2, second)]
            .into_iter()
            .flat_map(|(line, (without, with))| {
                let at_then = Record { step_kind: Some(StepKind::Then), ..record(line, Some("m"), with) };
                [record(line, None, without), at_then]
            })
            .collect();
        let outcome = Outcome::of("m", &records, None);
        (outcome.fate, exit(&[outcome]))
    }

    #[test]
    fn a_control_of_an_earlier_run_counts_where_its_scenario_is_played() {
        use Verdict::{Fail, Pass};
        let at_then = Record { step_kind: Some(StepKind::Then), ..record(1, Some("m"), Fail) };
        let played = [Record { id: "g/f:1@m".to_owned(), ..at_then }];
        let records = with_controls(&played, &[record(1, None, Pass), record(2, None, Pass)]);
        assert_eq!(records.len(), 2);
        assert_eq!(Outcome::of("m", &records, None).fate, Fate::Caught);
        assert_eq!(Outcome::of("m", &played, None).fate, Fate::NotRun);
    }

    #[test]
    fn a_defect_is_caught_only_if_every_scenario_that_names_it_turns_from_pass_to_fail() {
        use Verdict::{Fail, Inapplicable, Inconclusive, Pass, Skipped};
        let caught = (Pass, Fail);
        for (second, want) in [
            ((Pass, Fail), (Fate::Caught, Exit::Ok)),
            ((Pass, Pass), (Fate::Survived, Exit::Failed)),
            ((Fail, Fail), (Fate::Inconclusive, Exit::Inconclusive)),
            ((Pass, Inconclusive), (Fate::Inconclusive, Exit::Inconclusive)),
            ((Inconclusive, Fail), (Fate::Inconclusive, Exit::Inconclusive)),
            ((Inapplicable, Inapplicable), (Fate::Caught, Exit::Partial)),
            ((Pass, Skipped), (Fate::NotRun, Exit::Partial)),
        ] {
            assert_eq!(fate(caught, second), want, "{second:?}");
        }
    }

    #[test]
    fn a_defect_that_could_not_be_played_at_all_was_not_caught() {
        let nowhere = (Verdict::Inapplicable, Verdict::Inapplicable);
        assert_eq!(fate(nowhere, nowhere), (Fate::NotRun, Exit::Partial));
    }

    /// Result of a scenario that fails at this step with a defect of the catalogue.
    fn stops_at(kind: Option<StepKind>, step: &str, named: Option<&str>) -> Catch {
        let mut played = record(1, Some("m"), Verdict::Fail);
        (played.step_kind, played.step) = (kind, Some(step.to_owned()).filter(|step| !step.is_empty()));
        Catch::of(&record(1, None, Verdict::Pass), &played, named)
    }

    #[test]
    fn a_defect_of_the_catalogue_is_caught_by_an_expectation_only() {
        use StepKind::{End, Given, Then, When};
        for (kind, want) in [
            (Some(Given), Catch::Elsewhere),
            (Some(When), Catch::Elsewhere),
            (None, Catch::Elsewhere),
            (Some(Then), Catch::Caught),
            (Some(End), Catch::Caught),
        ] {
            assert_eq!(stops_at(kind, "", None), want, "{kind:?}");
        }
        assert_eq!(stops_at(Some(Then), "And pod \"cart\" is ready", Some("is ready")), Catch::Caught);
        assert_eq!(stops_at(Some(Then), "Then it runs", Some("is ready")), Catch::Elsewhere);
        assert_eq!(stops_at(Some(End), "", Some("is ready")), Catch::Elsewhere);
    }

    #[test]
    fn a_scenario_that_fails_before_it_asks_has_caught_nothing() {
        let mut at_given = record(1, Some("m"), Verdict::Fail);
        at_given.step_kind = Some(StepKind::Given);
        let outcome = Outcome::of("m", &[record(1, None, Verdict::Pass), at_given], None);
        assert_eq!((outcome.fate, exit(&[outcome])), (Fate::Elsewhere, Exit::Failed));
    }

    #[test]
    fn a_name_on_one_side_only_is_a_failure() {
        for fate in [Fate::Unplanted, Fate::Unnamed] {
            assert_eq!(exit(&[Outcome::without_scenarios("m", fate)]), Exit::Failed);
        }
    }
}
