// SPDX-License-Identifier: Apache-2.0
//! A run of mutants while it runs: one live line on a terminal, nothing elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::board::Show;
use crate::catalogue::Catalogue;
use crate::verdict::{Record, Verdict};

pub struct Progress {
    /// Remaining scenarios, by the defect that they play.
    left: BTreeMap<Option<String>, usize>,
    survivals: usize,
    bar: ProgressBar,
}

impl Progress {
    #[must_use]
    pub fn new(catalogue: &Catalogue) -> Self {
        let mut left: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for entry in &catalogue.entries {
            *left.entry(entry.mutant.clone()).or_default() += 1;
        }
        let live = std::io::stdout().is_terminal();
        let target = if live { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(catalogue.entries.len() as u64), target);
        if let Ok(style) = ProgressStyle::with_template("  {bar:16} {pos}/{len} scenarios · {msg}") {
            bar.set_style(style);
        }
        Self { left, survivals: 0, bar }
    }
}

impl Show for Progress {
    fn ended(&mut self, record: &Record) {
        if let Some(left) = self.left.get_mut(&record.mutant) {
            *left -= 1;
        }
        self.survivals += usize::from(record.mutant.is_some() && record.verdict == Verdict::Pass);
        let done = self.left.iter().filter(|(mutant, left)| mutant.is_some() && **left == 0).count();
        let all = self.left.keys().flatten().count();
        let message = format!("{done}/{all} mutants · {} scenarios did not notice", self.survivals);
        self.bar.set_message(message);
        self.bar.inc(1);
        if self.left.values().all(|left| *left == 0) {
            self.bar.finish_and_clear();
        }
    }
}
