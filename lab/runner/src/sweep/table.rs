// SPDX-License-Identifier: Apache-2.0
//! The table of a sweep for a terminal.

use super::outcome::{Measured, exposure, inbound, ready};

const HEAD: [&str; 8] =
    ["situation", "late", "policy", "exposure", "inbound", "ready", "restarts", "what its owner sees"];

/// A line for each cell.
#[must_use]
pub(super) fn render(measured: &Measured) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for cell in &measured.cells {
        let none = || "–".to_owned();
        let [exposure, inbound, ready, restarts, sees] = match &cell.outcome {
            Some(outcome) => [
                exposure(outcome),
                inbound(outcome),
                ready(outcome),
                outcome.restarts.to_string(),
                outcome.sees.join(", "),
            ],
            None => [none(), none(), none(), none(), cell.why.clone().unwrap_or_default()],
        };
        rows.push([
            cell.situation.clone(),
            format!("{} s", cell.late),
            cell.policy.clone(),
            exposure,
            inbound,
            ready,
            restarts,
            sees,
        ]);
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
