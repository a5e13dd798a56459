// SPDX-License-Identifier: Apache-2.0
//! The exposure of each cell as a picture: a bar for the time that packets got past, on a scale that has milliseconds and seconds.

use std::fmt::Write as _;

use super::outcome::{Measured, exposure};
use super::{Sweep, title};

const ROW: u32 = 18;
const LABELS: u32 = 330;
const SCALE: f64 = 90.0;
const WIDTH: u32 = 1000;

/// The picture.
#[must_use]
pub(super) fn svg(sweep: &Sweep, measured: &Measured) -> String {
    let mut rows = String::new();
    let mut y = 3 * ROW;
    for (situation, policy, late) in sweep.cells() {
        let Some(cell) = measured.cell(&situation.name, &policy.name, late) else { continue };
        let (text, ms, open) = match &cell.outcome {
            Some(outcome) => (exposure(outcome), outcome.exposure.ms, outcome.open),
            None => ("not measured".to_owned(), 0, false),
        };
        // A decade has the same length everywhere.
        let length = if ms == 0 {
            0.0
        } else {
            (f64::from(u32::try_from(ms).unwrap_or(u32::MAX)) + 1.0).log10() * SCALE
        };
        let colour = if open { "#b3261e" } else { "#e39600" };
        let _ = writeln!(
            rows,
            r#"<text x="{}" y="{y}" text-anchor="end">{}</text><rect x="{}" y="{}" width="{length:.0}" height="{}" fill="{colour}"/><text x="{:.0}" y="{y}">{}</text>"#,
            LABELS,
            escaped(&title(situation, policy, late)),
            LABELS + 8,
            y - 11,
            ROW - 5,
            f64::from(LABELS + 14) + length,
            escaped(&text),
        );
        y += ROW;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"{ROW}\" font-size=\"14\">{} ({} {})</text>\n{rows}</svg>\n",
        escaped(&sweep.question),
        escaped(&measured.product),
        escaped(&measured.version),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
