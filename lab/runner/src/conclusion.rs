// SPDX-License-Identifier: Apache-2.0
//! Conclusion of a run: its records become reports, and are printed.

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::mutants::outcome::MutantReport;
use crate::mutants::table;
use crate::plan::Plan;
use crate::report::header::now;
use crate::report::{Header, Report};
use crate::stress::{self, Why};
use crate::verdict::{Record, Verdict};
use crate::{board, junit, lacks};

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All scenarios ended, and the run after them.
    Whole,
    /// By the user.
    Interrupted,
    /// By a fault of the lab: what passed until then proves nothing of the whole.
    Faulty,
}

impl End {
    /// Exit of a run that came to `verdict`.
    fn exit(self, verdict: Exit) -> Exit {
        match (self, verdict) {
            (Self::Interrupted, _) => Exit::Interrupted,
            (Self::Faulty, Exit::Ok | Exit::Partial | Exit::Usage) => Exit::Inconclusive,
            (_, verdict) => verdict,
        }
    }
}

/// Writes the reports, of scenarios or of defects, and prints them; returns the exit.
pub(crate) fn conclude(
    plan: &Plan,
    mut header: Header,
    records: Vec<Record>,
    seconds: f64,
    end: End,
) -> anyhow::Result<Exit> {
    header.ended = now();
    let records = folded(&plan.args, records);
    match &plan.mutants {
        Some(mutants) => tell(plan, MutantReport::new(header, mutants, &records, seconds), end),
        None => report(plan, Report::new(header, plan, records, seconds), end),
    }
}

fn report(plan: &Plan, mut report: Report, end: End) -> anyhow::Result<Exit> {
    let exit = end.exit(report.verdict());
    report.exit = exit.code();
    // Verdicts are printed even where they cannot be written.
    let written = report.write(&plan.report_dir).and_then(|()| junit::write(&report, &plan.report_dir));
    show(plan, &report, exit);
    written.map(|()| exit)
}

/// Writes the report on defects, and prints it.
fn tell(plan: &Plan, mut report: MutantReport, end: End) -> anyhow::Result<Exit> {
    let exit = end.exit(report.exit());
    report.exit = exit.code();
    let written = report.write(&plan.report_dir);
    board::say(&table::render(&report));
    board::say(&table::last_line(&report));
    written.map(|()| exit)
}

/// Reason of a scenario that an interruption left out: it was skipped by the operator.
pub(crate) const LEFT_OUT: &str = "interrupted before its end";

/// One record of each scenario, whatever number of times it ran.
pub(crate) fn folded(args: &RunArgs, records: Vec<Record>) -> Vec<Record> {
    match (args.stress, args.retries) {
        (Some(_), _) => stress::fold(records, Why::Stress),
        (None, Some(_)) => stress::fold(records, Why::Retries),
        (None, None) => records,
    }
}

/// Every selected scenario with its verdict, in their order, and then what ran beside it, again.
pub(crate) fn in_order(selected: Vec<Record>, mut done: Vec<Record>) -> Vec<Record> {
    let ended = |blank: Record| {
        let found = done.iter().position(|record| record.id == blank.id);
        found.map_or(blank, |at| done.remove(at))
    };
    let mut all: Vec<_> = selected.into_iter().map(ended).collect();
    all.extend(done);
    all
}

fn show(plan: &Plan, report: &Report, exit: Exit) {
    let dir = plan.report_dir.strip_prefix(&plan.root).unwrap_or(&plan.report_dir).display().to_string();
    print(report, exit, (&dir, &again(plan)));
}

/// Arguments that a scenario of a run is played again with.
fn again(plan: &Plan) -> String {
    let args = &plan.args;
    let mut words = format!("--seed {}", plan.seed_text());
    if let Some(chaos) = args.chaos {
        words.push_str(&format!(" --chaos {chaos:x}"));
    }
    let flags = [
        (args.randomize_names, " --randomize-names"),
        (args.user_namespace, " --user-namespace"),
        (args.kubeconfig_exec, " --kubeconfig-exec"),
        (args.container, " --container"),
    ];
    words.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag));
    if let Some(times) = args.stress {
        words.push_str(&format!(" --stress {times}"));
    }
    if let Some(sut) = &args.sut {
        words.push_str(&format!(" --sut {}", sut.display()));
    }
    if let Some(kubeconfig) = &args.kubeconfig {
        words.push_str(&format!(" --kubeconfig {}", kubeconfig.display()));
        words.extend(args.image.iter().map(|image| format!(" --image {image}")));
        words.extend(args.agent_image.iter().map(|agent| format!(" --agent-image {agent}")));
    }
    words.push_str(&args.on.to_string());
    words
}

/// Prints what a report says. `again` are arguments that a scenario is played again with.
pub(crate) fn print(report: &Report, exit: Exit, (dir, again): (&str, &str)) {
    for record in &report.scenarios {
        for note in &record.notes {
            board::say(&format!("  {note}"));
        }
    }
    for record in &report.scenarios {
        if matches!(record.verdict, Verdict::Fail | Verdict::Flaky | Verdict::Inconclusive) {
            board::say(&board::failure(record, dir, again));
        }
    }
    let lacks = lacks::render(&report.lacks);
    if !lacks.is_empty() {
        board::say(&lacks);
    }
    board::say(&board::summary(&report.totals, report.seconds, exit));
    board::say(&board::last_line(&report.totals));
}
