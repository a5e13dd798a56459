// SPDX-License-Identifier: Apache-2.0
//! Result of each defect as text: a line for each, below it the scenarios that did not catch it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::names;

use super::outcome::{Catch, Fate, MutantReport, Outcome};

/// The table, and its summary line.
#[must_use]
pub fn render(report: &MutantReport) -> String {
    let width = report.mutants.iter().map(|outcome| outcome.mutant.len()).max().unwrap_or(0);
    let mut text = format!("  {:width$}  scenarios  verdict       by\n", "mutant");
    for outcome in &report.mutants {
        row(&mut text, outcome, width);
    }
    let pass = report.control.pass;
    let _ = write!(
        text,
        "without a defect: {pass} of {} scenarios pass\n{} mutants: {} caught · {} failed elsewhere · {} survived · {} inconclusive · \
         {} not run · {} without a plant · {} without a scenario · {:.1} s · exit {}",
        report.control.selected,
        report.mutants.len(),
        report.count(Fate::Caught),
        report.count(Fate::Elsewhere),
        report.count(Fate::Survived),
        report.count(Fate::Inconclusive),
        report.count(Fate::NotRun),
        report.count(Fate::Unplanted),
        report.count(Fate::Unnamed),
        report.seconds,
        report.exit,
    );
    text
}

fn row(text: &mut String, outcome: &Outcome, width: usize) {
    let caught = || outcome.scenarios.iter().filter(|trial| trial.catch == Catch::Caught);
    let by: BTreeSet<&str> = caught().map(|trial| names::feature(&trial.id)).collect();
    let mark = if outcome.fate == Fate::Caught { ' ' } else { '✗' };
    let scenarios = format!("{}/{}", caught().count(), outcome.scenarios.len());
    let by = by.into_iter().collect::<Vec<_>>().join(", ");
    let line = format!("{mark} {:width$}  {scenarios:>9}  {:12}  {by}", outcome.mutant, word(outcome.fate));
    let _ = writeln!(text, "{}", line.trim_end());
    for trial in outcome.scenarios.iter().filter(|trial| trial.catch != Catch::Caught) {
        let _ = writeln!(text, "    {} ({}): {}", trial.id, trial.place, trial.catch.word());
        for line in [&trial.step, &trial.reason].into_iter().flatten() {
            let _ = writeln!(text, "      {}", line.replace('\n', "\n      "));
        }
        let id = names::quoted(&trial.id);
        let _ = writeln!(text, "      again: cargo lab run --mutant {} --only {id}", outcome.mutant);
    }
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Caught => "caught",
        Fate::Elsewhere => "elsewhere",
        Fate::Survived => "survived",
        Fate::Unplanted => "no plant",
        Fate::Unnamed => "no scenario",
        Fate::Inconclusive => "inconclusive",
        Fate::NotRun => "not run",
    }
}

/// The last line, for programs. Whatever proves nothing is not counted as caught.
#[must_use]
pub fn last_line(report: &MutantReport) -> String {
    let caught = report.count(Fate::Caught);
    format!("{caught} caught, {} not caught", report.mutants.len() - caught)
}
