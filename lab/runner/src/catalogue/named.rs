// SPDX-License-Identifier: Apache-2.0
//! Scenarios that are named one by one: by `--only`, or by a report whose failures are played again.

use anyhow::{Context as _, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::{Entry, stem};
use crate::cli::{Reran, Selection};
use crate::names::{self, Aliases};
use crate::verdict::Verdict;

impl Selection {
    /// With the ids that a report stands for, and that report's digest.
    pub fn resolved(mut self) -> anyhow::Result<Self> {
        if let Some(report) = self.rerun.take() {
            let about = || format!("--rerun {}", report.display());
            let text = std::fs::read(&report).with_context(about)?;
            self.only.extend(not_passed(&text).with_context(about)?);
            let sha256 = HEXLOWER.encode(&Sha256::digest(&text));
            self.reran = Some(Reran { report, sha256 });
        }
        Ok(self)
    }
}

/// Ids of the scenarios of a report that did not pass, and were not left out for good reasons.
fn not_passed(text: &[u8]) -> anyhow::Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Ran {
        scenarios: Vec<Scenario>,
    }
    #[derive(serde::Deserialize)]
    struct Scenario {
        id: String,
        verdict: Verdict,
    }
    let ran: Ran = serde_json::from_slice(text)?;
    let again = [Verdict::Fail, Verdict::Flaky, Verdict::Inconclusive, Verdict::Skipped];
    let ids = ran.scenarios.into_iter().filter(|scenario| again.contains(&scenario.verdict));
    let ids: Vec<_> = ids.map(|scenario| scenario.id).collect();
    if ids.is_empty() {
        bail!("everything that could run passed");
    }
    Ok(ids)
}

/// Scenarios, as `--only` names them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An id, or the beginning of several.
    Id(String),
    /// A line of a feature.
    Line { file: String, line: usize },
}

impl Place {
    pub(super) fn parse(text: &str, aliases: &Aliases) -> Self {
        let place = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let short = |text: &str| {
            let text = text.strip_prefix("features/").unwrap_or(text);
            text.trim_end_matches('/').trim_end_matches(".feature").to_owned()
        };
        match place {
            Some((file, line)) => Self::Line { file: short(file), line },
            None => Self::Id(aliases.resolve(&short(text))),
        }
    }

    /// Ids of the entries that this names: the one of this id, else all that begin with it; or by a line, that of a scenario, a row, or the
    /// outline that rows belong to.
    pub(super) fn ids(&self, entries: &[Entry]) -> Vec<String> {
        let is_named = |entry: &&Entry| match self {
            Self::Id(wanted) => names::is_of(&entry.id, wanted),
            Self::Line { file, line } => {
                let first = entry.scenario.steps.first();
                let outline = first.map_or(0, |step| step.position.line.saturating_sub(1));
                stem(&entry.file) == file && (*line == entry.scenario.position.line || *line == outline)
            }
        };
        match self {
            Self::Id(wanted) if entries.iter().any(|entry| entry.id == *wanted) => vec![wanted.clone()],
            _ => entries.iter().filter(is_named).map(|entry| entry.id.clone()).collect(),
        }
    }
}
