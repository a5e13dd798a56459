// SPDX-License-Identifier: Apache-2.0
//! Verdicts on scenarios and runs.

use std::collections::BTreeMap;

use cucumber::gherkin;
use serde::{Deserialize, Serialize, Serializer};

use crate::exit::Exit;

/// Verdict on a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The behaviour holds.
    Pass,
    /// The system under test behaves differently.
    Fail,
    /// The system under test does not claim this behaviour.
    Unsupported,
    /// The environment lacks something; the reason carries the probe's evidence.
    Inapplicable,
    /// Excluded by the operator.
    Skipped,
    Inconclusive,
    /// Its runs have different verdicts.
    Flaky,
}

impl Verdict {
    /// All verdicts, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Pass,
        Self::Fail,
        Self::Flaky,
        Self::Inconclusive,
        Self::Inapplicable,
        Self::Unsupported,
        Self::Skipped,
    ];

    /// Word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unsupported => "unsupported",
            Self::Inapplicable => "inapplicable",
            Self::Skipped => "skipped",
            Self::Inconclusive => "inconclusive",
            Self::Flaky => "flaky",
        }
    }
}

/// Whose a reason is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// This machine lacks something, or something of it is broken.
    Machine,
    /// Impossible on this kind of cluster.
    Tier,
    /// This cluster lacks something that others of its kind have.
    Cluster,
    /// The system under test does something else, or does not claim it.
    Product,
}

impl Class {
    /// Word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Tier => "tier",
            Self::Cluster => "cluster",
            Self::Product => "product",
        }
    }
}

/// The kind of step that stopped a scenario. `And` and `But` are of the kind that they follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The situation.
    Given,
    /// The event.
    When,
    /// The expectation.
    Then,
    /// None: the check after every scenario.
    End,
}

impl StepKind {
    /// True for an expectation. A failure elsewhere only keeps the scenario from asking.
    #[must_use]
    pub fn is_expectation(self) -> bool {
        matches!(self, Self::Then | Self::End)
    }
}

impl From<gherkin::StepType> for StepKind {
    fn from(kind: gherkin::StepType) -> Self {
        match kind {
            gherkin::StepType::Given => Self::Given,
            gherkin::StepType::When => Self::When,
            gherkin::StepType::Then => Self::Then,
        }
    }
}

/// Serializes seconds to the millisecond: a number of few digits is read back as it was written.
pub(crate) fn milliseconds<S: Serializer>(seconds: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((seconds * 1000.0).round() / 1000.0)
}

/// Duration of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTime {
    /// Its text, with the keyword.
    pub step: String,
    /// Wall-clock time; of concurrent scenarios each counts the waiting for the others.
    #[serde(serialize_with = "milliseconds")]
    pub seconds: f64,
}

/// Runs of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    pub count: usize,
    /// Number of runs by verdict, in words.
    pub verdicts: BTreeMap<String, usize>,
}

/// A selected scenario with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// `redirection/dns-servers/over[tcp]`: see [`crate::names`].
    pub id: String,
    /// Group: the feature's directory.
    pub group: String,
    pub feature: String,
    /// The scenario's name, placeholders filled in.
    pub name: String,
    /// The feature file, relative to the workspace.
    pub file: String,
    /// Line of the scenario, or of its row of examples.
    pub line: usize,
    /// All tags, inherited ones included.
    pub tags: Vec<String>,
    /// Defect that the system under test played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    pub verdict: Verdict,
    /// Reason, unless it passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whose the reason is; none where the lab failed or was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Step that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_kind: Option<StepKind>,
    /// Duration, of all runs together.
    #[serde(serialize_with = "milliseconds")]
    pub seconds: f64,
    /// Steps that ran, those of the background first, each with its duration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepTime>,
    /// Its runs, where each scenario was to run several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Runs>,
    /// Notes for the report, passed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Number of errors in logs that the product's description excuses, by its text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excused: BTreeMap<String, usize>,
    /// Back ends that the plugin used, each with its reason, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub back_ends: Vec<String>,
    /// Files with evidence, relative to the report's directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// Sums of counts by name.
pub(crate) fn sum<'a>(counts: impl Iterator<Item = &'a BTreeMap<String, usize>>) -> BTreeMap<String, usize> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts.flatten() {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

/// Numbers of scenarios by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    pub selected: usize,
    pub pass: usize,
    pub fail: usize,
    pub flaky: usize,
    pub inconclusive: usize,
    pub inapplicable: usize,
    pub unsupported: usize,
    pub skipped: usize,
}

impl Totals {
    /// Counts verdicts.
    pub fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut totals = Self::default();
        for verdict in verdicts {
            totals.selected += 1;
            *totals.slot(verdict) += 1;
        }
        totals
    }

    fn slot(&mut self, verdict: Verdict) -> &mut usize {
        match verdict {
            Verdict::Pass => &mut self.pass,
            Verdict::Fail => &mut self.fail,
            Verdict::Flaky => &mut self.flaky,
            Verdict::Inconclusive => &mut self.inconclusive,
            Verdict::Inapplicable => &mut self.inapplicable,
            Verdict::Unsupported => &mut self.unsupported,
            Verdict::Skipped => &mut self.skipped,
        }
    }

    /// Number of this verdict.
    #[must_use]
    pub fn count(mut self, verdict: Verdict) -> usize {
        *self.slot(verdict)
    }

    /// The exit code that these verdicts add up to: a failure outweighs a harness that failed elsewhere, both outweigh what is flaky, and that
    /// what could not run. `excused` is how many could not run for want of what a run can do without. Nothing selected proves nothing,
    /// and neither does a selection of which nothing could run.
    #[must_use]
    pub fn exit(&self, excused: usize) -> Exit {
        if self.selected == 0 {
            Exit::Usage
        } else if self.fail > 0 {
            Exit::Failed
        } else if self.inconclusive > 0 {
            Exit::Inconclusive
        } else if self.flaky > 0 {
            Exit::Flaky
        } else if self.inapplicable - excused.min(self.inapplicable) + self.unsupported + self.skipped > 0
            || self.pass == 0 && self.inapplicable > 0
        {
            Exit::Partial
        } else {
            Exit::Ok
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(verdicts: &[Verdict]) -> Exit {
        Totals::of(verdicts.iter().copied()).exit(0)
    }

    #[test]
    fn every_verdict_is_counted_once() {
        let totals = Totals::of(Verdict::ALL.into_iter());
        assert_eq!(totals.selected, 7);
        assert!(Verdict::ALL.into_iter().all(|verdict| totals.count(verdict) == 1));
    }

    #[test]
    fn the_worst_verdict_decides_the_exit_code() {
        use Verdict::{Fail, Flaky, Inapplicable, Inconclusive, Pass, Skipped, Unsupported};
        assert_eq!(exit(&[Pass, Unsupported]), Exit::Partial, "what nobody claims did not run either");
        assert_eq!(exit(&[Unsupported]), Exit::Partial);
        assert_eq!(exit(&[Pass, Pass]), Exit::Ok);
        assert_eq!(exit(&[Pass, Inapplicable]), Exit::Partial);
        assert_eq!(exit(&[Pass, Skipped]), Exit::Partial);
        assert_eq!(exit(&[Pass, Inapplicable, Inconclusive]), Exit::Inconclusive);
        assert_eq!(exit(&[Pass, Inconclusive, Fail]), Exit::Failed);
        assert_eq!(exit(&[Pass, Flaky, Inapplicable]), Exit::Flaky);
        assert_eq!(exit(&[Pass, Flaky, Inconclusive]), Exit::Inconclusive);
        assert_eq!(exit(&[Flaky, Fail]), Exit::Failed);
    }

    #[test]
    fn what_is_excused_spoils_nothing_unless_nothing_else_ran() {
        use Verdict::{Fail, Inapplicable, Inconclusive, Pass, Skipped};
        let excused = |count, verdicts: &[Verdict]| Totals::of(verdicts.iter().copied()).exit(count);
        assert_eq!(excused(2, &[Pass, Inapplicable, Inapplicable]), Exit::Ok);
        assert_eq!(
            excused(1, &[Pass, Inapplicable, Inapplicable]),
            Exit::Partial,
            "one needs what must be there"
        );
        assert_eq!(excused(1, &[Inapplicable]), Exit::Partial);
        assert_eq!(excused(1, &[Pass, Inapplicable, Skipped]), Exit::Partial);
        assert_eq!(excused(1, &[Pass, Inapplicable, Inconclusive]), Exit::Inconclusive);
        assert_eq!(excused(1, &[Pass, Inapplicable, Fail]), Exit::Failed);
    }

    #[test]
    fn a_run_without_scenarios_is_not_green() {
        assert_eq!(exit(&[]), Exit::Usage);
    }
}
