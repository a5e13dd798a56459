// SPDX-License-Identifier: Apache-2.0
//! The report of a run whose process was ended before it wrote one: verdicts until then are in the journal.

use crate::board;
use crate::conclusion::{End, LEFT_OUT, conclude, in_order};
use crate::exit::Exit;
use crate::journal::Journal;
use crate::plan::Plan;
use crate::sandbox::{Early, Ended};
use crate::verdict::{Record, Verdict};

/// Writes the report, and returns its exit. A run that had not begun has none.
pub(crate) fn report(plan: &Plan, journal: &Journal, early: Early, seconds: f64) -> anyhow::Result<Exit> {
    let Some((begun, ended)) = journal.read()? else { return Ok(Ended::Early(early).exit()) };
    let end = if early.interrupted { End::Interrupted } else { End::Faulty };
    let selected = begun.scenarios.into_iter().map(|record| unfinished(record, &early)).collect();
    let exit = conclude(plan, begun.header, in_order(selected, ended), seconds, end)?;
    if end == End::Faulty {
        board::complain(format!("{}; the report has the scenarios that had ended", early.cause));
        if let Some(kubeconfig) = &plan.args.kubeconfig {
            let kubeconfig = kubeconfig.display();
            board::complain(format!(
                "what it made there stays: cnilab clean --kubeconfig {kubeconfig} removes it"
            ));
        }
    }
    Ok(exit)
}

/// A scenario that had not ended.
fn unfinished(record: Record, early: &Early) -> Record {
    let (verdict, reason) = match early.interrupted {
        true => (Verdict::Skipped, LEFT_OUT.to_owned()),
        false => (Verdict::Inconclusive, format!("{} before its end", early.cause)),
    };
    Record { verdict, reason: Some(reason), ..record }
}
