// SPDX-License-Identifier: Apache-2.0
//! A report that was read: whether it is as a run left it, and agrees with itself.
//!
//! Its digest is a checksum and no signature: an edit that computes a new one is found only where it contradicts the rest.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{Part, Report, count};
use crate::exit::Exit;
use crate::lacks;
use crate::suite::sha256;
use crate::verdict::{self, Record, Totals};

/// Digest of a report: that of its JSON with sorted keys, without white space and without the digest itself.
pub(super) fn integrity(report: &Report) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(report)?;
    value.as_object_mut().and_then(|fields| fields.remove("integrity"));
    // Sorted already, unless a dependency has asked for the order of insertion.
    value.sort_all_objects();
    Ok(sha256(&serde_json::to_vec::<Value>(&value)?))
}

/// Fails where a report is not as it was written, or contradicts itself.
pub(super) fn verify(report: &Report) -> anyhow::Result<()> {
    let found = integrity(report)?;
    ensure!(
        report.integrity == found,
        "integrity: {}, and its content has {found}: it was edited after the run",
        report.integrity
    );
    let totals = Totals::of(report.scenarios.iter().map(|record| record.verdict));
    ensure!(report.totals == totals, "totals: {:?}, and its scenarios have {totals:?}", report.totals);
    let back_ends = count(&report.scenarios);
    ensure!(
        report.back_ends == back_ends,
        "back_ends: {:?}, and its scenarios have {back_ends:?}",
        report.back_ends
    );
    let excused = verdict::sum(report.scenarios.iter().map(|record| &record.excused));
    ensure!(report.excused == excused, "excused: {:?}, and its scenarios have {excused:?}", report.excused);
    let ids: Vec<_> = report.scenarios.iter().map(|record| &record.id).collect();
    ensure!(
        report.header.ids.selected.iter().eq(ids),
        "header.ids.selected: these are not the ids of its scenarios"
    );
    parts(report)?;
    let headers = report.parts.iter().map(|part| &part.header).chain([&report.header]);
    let has_changed = headers.into_iter().any(|header| !header.nodes_at_end.is_empty());
    let is_green = [Exit::Ok, Exit::Partial].iter().any(|exit| exit.code() == report.exit);
    ensure!(!(has_changed && is_green), "exit: {}, and nodes changed during the run", report.exit);
    let due = report.verdict();
    let has_ended = [Some(due), Some(Exit::Interrupted), (due != Exit::Failed).then_some(Exit::Inconclusive)];
    ensure!(
        has_ended.into_iter().flatten().any(|exit| exit.code() == report.exit),
        "exit: {}, and its scenarios come to {}",
        report.exit,
        due.code()
    );
    Ok(())
}

/// Fails unless each scenario is of one part, and each part excuses what its own machine lacked.
fn parts(report: &Report) -> anyhow::Result<()> {
    let Report { parts, scenarios, .. } = report;
    if parts.is_empty() {
        return Ok(());
    }
    let records: BTreeMap<_, _> = scenarios.iter().map(|record| (record.id.as_str(), record)).collect();
    let mut seen = BTreeSet::new();
    for (number, part) in parts.iter().enumerate() {
        let records = of_part(part, &records).with_context(|| format!("parts[{number}].header.ids"))?;
        if let Some(twice) = records.iter().find(|record| !seen.insert(record.id.as_str())) {
            bail!("parts[{number}].header.ids: {} is of another part as well", twice.id);
        }
        let excused = lacks::excused(records.iter().copied(), &part.header.probes);
        ensure!(
            part.excused == excused,
            "parts[{number}].excused: {}, and its scenarios and probes have {excused}",
            part.excused
        );
    }
    let orphan = scenarios.iter().find(|record| !seen.contains(record.id.as_str()));
    orphan.map_or(Ok(()), |record| bail!("parts: {} is of none", record.id))
}

fn of_part<'a>(part: &Part, records: &BTreeMap<&str, &'a Record>) -> anyhow::Result<Vec<&'a Record>> {
    let find = |id: &String| {
        records.get(id.as_str()).copied().with_context(|| format!("{id} is not among the scenarios"))
    };
    part.header.ids.selected.iter().map(find).collect()
}
