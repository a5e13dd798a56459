// SPDX-License-Identifier: Apache-2.0
//! Display of a run: a line per group while it runs, then failures, then a summary line. On a terminal the lines are live; elsewhere a
//! group's line is printed once, when its last scenario has ended.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{IsTerminal as _, Write as _};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::carried;
use crate::exit::Exit;
use crate::names;
use crate::redact::{self, redacted};
use crate::verdict::{Record, Totals, Verdict};

/// Cells of a full bar.
const WIDTH: usize = 16;

/// Display of a run in progress.
pub trait Show {
    fn ended(&mut self, record: &Record);
}

struct Group {
    name: String,
    total: usize,
    done: Vec<Verdict>,
    reasons: BTreeMap<String, usize>,
    bar: ProgressBar,
}

pub struct Board {
    groups: Vec<Group>,
    live: bool,
    width: usize,
}

impl Board {
    /// A board for these groups, each with the number of its scenarios.
    #[must_use]
    pub fn new(groups: &[(String, usize)]) -> Self {
        let live = std::io::stdout().is_terminal();
        let target = if live { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        let multi = MultiProgress::with_draw_target(target);
        let width = groups.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let groups = groups.iter().map(|(name, total)| Group::new(name, *total, &multi)).collect();
        Self { groups, live, width }
    }
}

impl Show for Board {
    fn ended(&mut self, record: &Record) {
        let Some(group) = self.groups.iter_mut().find(|group| group.name == record.group) else { return };
        group.done.push(record.verdict);
        if record.verdict == Verdict::Inapplicable {
            *group.reasons.entry(record.reason.clone().unwrap_or_default()).or_default() += 1;
        }
        let line = group.line(self.width);
        let finished = group.done.len() == group.total;
        group.bar.set_message(line.clone());
        if finished {
            group.bar.finish();
            if !self.live {
                say(&line);
            }
        }
    }
}

/// A line per scenario, where each of them takes its time and nobody looks at a terminal.
pub struct Lines;

impl Lines {
    /// True if a run of so many scenarios at a time is better told by lines.
    #[must_use]
    pub fn fit(jobs: usize) -> bool {
        jobs == 1 && !std::io::stdout().is_terminal()
    }
}

impl Show for Lines {
    fn ended(&mut self, record: &Record) {
        if record.verdict != Verdict::Inapplicable {
            say(&format!("  {:6.1} s  {}  {}", record.seconds, record.verdict.word(), record.id));
        }
    }
}

impl Group {
    fn new(name: &str, total: usize, multi: &MultiProgress) -> Self {
        let bar = multi.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self { name: name.to_owned(), total, done: Vec::new(), reasons: BTreeMap::new(), bar }
    }

    fn line(&self, width: usize) -> String {
        let cells = (self.done.len() * WIDTH).checked_div(self.total).unwrap_or(WIDTH);
        let bar = format!("{}{}", "█".repeat(cells), "░".repeat(WIDTH - cells));
        let mut line = format!("  {:width$}  {bar}", self.name);
        let totals = Totals::of(self.done.iter().copied());
        for verdict in Verdict::ALL {
            let count = totals.count(verdict);
            if count > 0 || verdict == Verdict::Pass {
                let _ = write!(line, " {count:>3} {} ", verdict.word());
            }
        }
        let reasons: Vec<_> = self.reasons.keys().map(String::as_str).collect();
        if !reasons.is_empty() {
            let _ = write!(line, ": {}", reasons.join("; "));
        }
        line.trim_end().to_owned()
    }
}

/// Prints a line without secrets. EPIPE is no reason to stop a run.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", redacted(text));
    let _ = out.flush();
}

/// Prints an error, redacted and bounded, on standard error.
pub fn complain(what: impl fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "cnilab: {}", redact::reason(&what.to_string()));
}

/// A scenario that did not pass: where, what, why, and how to see it again.
#[must_use]
pub fn failure(record: &Record, report_dir: &str, again: &str) -> String {
    let mark = if record.verdict == Verdict::Fail { '✗' } else { '?' };
    let Record { id, file, line, name, .. } = record;
    let mut text = format!("{mark} {id} ({file}:{line})\n  {name}");
    if let Some(step) = &record.step {
        let _ = write!(text, "\n  at    {step}");
    }
    let reason = record.reason.as_deref().unwrap_or("no reason was given");
    let _ = write!(text, "\n  {}  {}", record.verdict.word(), reason.replace('\n', "\n        "));
    for file in &record.evidence {
        let _ = write!(text, "\n  → {report_dir}/{file}");
    }
    let _ = write!(text, "\n  again: {} run --only {} {again}", carried::command(), names::quoted(id));
    text.truncate(text.trim_end().len());
    text
}

/// The line for a person: `121 pass · 1 fail · 2 inapplicable · 34.1 s · exit 1`.
#[must_use]
pub fn summary(totals: &Totals, seconds: f64, exit: Exit) -> String {
    let mut parts = Vec::new();
    for verdict in Verdict::ALL {
        let count = totals.count(verdict);
        if count > 0 || verdict == Verdict::Pass {
            parts.push(format!("{count} {}", verdict.word()));
        }
    }
    format!("{} · {seconds:.1} s · exit {}", parts.join(" · "), exit.code())
}

/// The last line, for programs: `N passed, N failed, N skipped`. Whatever proves nothing is not counted as passed.
#[must_use]
pub fn last_line(totals: &Totals) -> String {
    let failed = totals.fail + totals.flaky + totals.inconclusive;
    let skipped = totals.inapplicable + totals.unsupported + totals.skipped;
    format!("{} passed, {failed} failed, {skipped} skipped", totals.pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_each_verdict_that_occurred() {
        let totals = Totals::of([Verdict::Pass, Verdict::Fail, Verdict::Inapplicable].into_iter());
        assert_eq!(
            summary(&totals, 34.1, totals.exit(0)),
            "1 pass · 1 fail · 1 inapplicable · 34.1 s · exit 1"
        );
        assert_eq!(last_line(&totals), "1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn an_inconclusive_scenario_is_not_green_for_programs() {
        let totals = Totals::of([Verdict::Inconclusive].into_iter());
        assert_eq!(last_line(&totals), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_groups_line_fills_up_and_gives_reasons() {
        let mut group = Group::new("race", 2, &MultiProgress::with_draw_target(ProgressDrawTarget::hidden()));
        group.done.push(Verdict::Inapplicable);
        group.reasons.insert("no ip_tables".into(), 1);
        assert_eq!(group.line(6), "  race    ████████░░░░░░░░   0 pass    1 inapplicable : no ip_tables");
    }
}
