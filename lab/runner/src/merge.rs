// SPDX-License-Identifier: Apache-2.0
//! `cnilab merge`: the reports of all parts of a selection, or of runs without a scenario in common, as one. What does not belong together
//! is refused: a merged report must not look more complete than its parts are.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use cluster::Probe;

use crate::catalogue::Ids;
use crate::cli::{MergeArgs, Selection, Shard};
use crate::directory::Directory;
use crate::exit::{Exit, Usage};
use crate::lacks::Lack;
use crate::locate::Workspace;
use crate::report::{self, Header, Part, Report};
use crate::verdict::Record;
use crate::{board, conclusion, junit, redact, tier};

/// A report and where it was.
#[derive(Debug, Clone)]
struct Given {
    path: PathBuf,
    /// SHA-256 of its file.
    sha256: String,
    report: Report,
}

/// Merges and prints. Reports that do not belong together are a usage error.
pub fn merge(args: &MergeArgs) -> anyhow::Result<Exit> {
    let dir = match &args.report_dir {
        Some(dir) => dir.clone(),
        None => Workspace::find()?.lab.join("merged"),
    };
    let given = args.reports.iter().map(|path| read(path, &dir)).collect::<anyhow::Result<Vec<_>>>();
    let merged = given.and_then(|given| Ok((files(&given)?, merged(given)?)));
    let (files, mut report) = merged.context(Usage("merge".to_owned()))?;
    let (dir, _held) = report::fresh(&dir)?;
    carry(&files, &dir, &mut report.scenarios).context(Usage("merge".to_owned()))?;
    report.write(&dir)?;
    junit::write(&report, &dir)?;
    for part in &report.parts {
        board::say(&format!("{:.1} s · {}", part.seconds, part.header.line()));
    }
    let exit = Exit::from_code(report.exit.into()).unwrap_or(Exit::Inconclusive);
    conclusion::print(&report, exit, (&dir.display().to_string(), ""));
    Ok(exit)
}

/// Reads a report that is not where the merged one goes.
fn read(path: &Path, to: &Path) -> anyhow::Result<Given> {
    let (report, sha256) = report::read(path)?;
    let is_there = to.canonicalize().is_ok_and(|to| directory(path).canonicalize().is_ok_and(|at| at == to));
    ensure!(!is_there, "{}: the merged report would replace it: name another --report-dir", path.display());
    Ok(Given { path: path.to_owned(), sha256, report })
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// One report of several.
fn merged(mut given: Vec<Given>) -> anyhow::Result<Report> {
    apart(&given)?;
    let is_sharded = is_sharded(&given)?;
    alike(&given, is_sharded)?;
    if is_sharded {
        given.sort_by_key(|one| one.report.header.selection.shard.map(|shard| shard.number));
        whole(&given)?;
    }
    let all: Vec<_> = given.iter().map(|one| selection(&one.report)).collect();
    let reports = || given.iter().map(|one| &one.report);
    let parts: Vec<_> = given.iter().flat_map(|one| one.report.as_parts(&one.sha256)).collect();
    let ended = |exit: Exit| given.iter().any(|one| one.report.exit == exit.code());
    let (faulty, interrupted) = (ended(Exit::Inconclusive), ended(Exit::Interrupted));
    let lacks = lacks(reports().flat_map(|report| report.lacks.clone()));
    let seconds = reports().map(|report| report.seconds).sum();
    let (mut header, strict) = match given.first() {
        Some(Given { report, .. }) => (report.header.clone(), report.strict),
        None => bail!("no report"),
    };
    let scenarios = in_order(given, is_sharded);
    header.selection = match all.split_first() {
        Some((first, rest)) if rest.iter().all(|other| text(other) == text(first)) => first.clone(),
        _ => Selection { only: scenarios.iter().map(|one| one.id.clone()).collect(), ..Selection::default() },
    };
    header.ids = ids(&header, &scenarios);
    (header.began, header.ended) = span(&parts);
    let mut report = Report::of(header, scenarios, parts, (strict, lacks), seconds);
    report.exit = match report.verdict() {
        worse @ (Exit::Failed | Exit::Inconclusive) => worse,
        _ if faulty => Exit::Inconclusive,
        _ if interrupted => Exit::Interrupted,
        exit => exit,
    }
    .code();
    Ok(report)
}

/// Ids of all parts, and those that none of them has.
fn ids(first: &Header, scenarios: &[Record]) -> Ids {
    let selected: Vec<_> = scenarios.iter().map(|record| record.id.clone()).collect();
    let own: BTreeSet<_> = selected.iter().collect();
    let suite = first.ids.selected.iter().chain(&first.ids.left_out);
    let left_out = suite.filter(|id| !own.contains(id)).cloned().collect();
    Ids { selected, left_out }
}

/// First begin and last end of the parts. All are in UTC, and of one form.
fn span(parts: &[Part]) -> (String, String) {
    let began = parts.iter().map(|part| part.header.began.clone()).min();
    let ended = parts.iter().map(|part| part.header.ended.clone()).max();
    (began.unwrap_or_default(), ended.unwrap_or_default())
}

/// Refuses a scenario that is in two reports.
fn apart(given: &[Given]) -> anyhow::Result<()> {
    let mut seen = HashMap::new();
    for Given { path, report, .. } in given {
        for Record { id, .. } in &report.scenarios {
            if let Some(other) = seen.insert(id, path) {
                bail!("scenarios: id: {id} is in {} and in {}", other.display(), path.display());
            }
        }
    }
    Ok(())
}

/// True if these are parts of a selection. Refuses a part beside something that is none.
fn is_sharded(given: &[Given]) -> anyhow::Result<bool> {
    let shards = || given.iter().map(|one| (one.report.header.selection.shard, &one.path));
    let part = shards().find_map(|(shard, path)| Some((shard?, path)));
    let none = shards().find(|(shard, _)| shard.is_none());
    if let (Some((Shard { number, of }, part)), Some((_, none))) = (part, none) {
        bail!(
            "header.selection.shard: {number}/{of} in {}, none in {}: merge the parts first",
            part.display(),
            none.display()
        );
    }
    Ok(part.is_some())
}

/// Refuses reports on different products, by different means; and parts of different selections.
fn alike(given: &[Given], is_sharded: bool) -> anyhow::Result<()> {
    let Some((first, rest)) = given.split_first() else { return Ok(()) };
    for other in rest {
        for ((field, one), (_, two)) in facts(&first.report, is_sharded).zip(facts(&other.report, is_sharded))
        {
            ensure!(
                one == two,
                "{field}: {one} in {}, {two} in {}",
                first.path.display(),
                other.path.display()
            );
        }
    }
    Ok(())
}

/// What reports that become one have in common: the field and its value.
fn facts(report: &Report, is_sharded: bool) -> impl Iterator<Item = (&'static str, String)> {
    let header = &report.header;
    let binaries: Vec<_> =
        header.binaries.iter().map(|binary| format!("{} {}", binary.name, binary.sha256)).collect();
    let files: Vec<_> = header.product.files.iter().map(|file| file.sha256.clone()).collect();
    let facts = [
        ("header.suite", header.suite.clone()),
        ("header.digests.cnilab", header.digests.cnilab.clone()),
        ("header.digests.workload", header.digests.workload.clone()),
        ("header.digests.features", header.digests.features.clone()),
        ("header.digests.scenarios", header.digests.scenarios.clone()),
        ("header.digests.cni", header.digests.cni.clone()),
        ("header.product.files", files.join(", ")),
        ("header.tier", header.tier.clone()),
        ("header.product", format!("{} {}", header.product.name, header.product.version)),
        ("header.binaries", binaries.join(", ")),
        ("header.stress", header.stress.map_or(1, usize::from).to_string()),
        ("header.retries", header.retries.unwrap_or(0).to_string()),
        ("strict", report.strict.to_string()),
    ];
    let of_parts = [
        ("header.selection", text(&selection(report))),
        ("header.selection.shard.of", header.selection.shard.map_or(0, |shard| shard.of).to_string()),
    ];
    facts
        .into_iter()
        .chain(of_parts.into_iter().filter(move |_| is_sharded))
        .chain(of_cluster(header).into_iter().flatten())
}

/// Evidence of the probes (server, kernel, runtime) and the seed of delays, of a report on a cluster that outlives a scenario.
fn of_cluster(header: &Header) -> Option<[(&'static str, String); 3]> {
    let evidence = |probe: &Probe| probe.met.then(|| probe.evidence.clone());
    let of_it: BTreeSet<_> = header.probes.iter().filter_map(evidence).collect();
    let chaos = header.chaos.clone().unwrap_or_else(|| "none".to_owned());
    (header.tier != tier::NETNS).then(|| {
        let nodes = serde_json::to_string(&header.nodes).unwrap_or_default();
        [
            ("header.probes", of_it.into_iter().collect::<Vec<_>>().join("; ")),
            ("header.chaos", chaos),
            ("header.nodes", nodes),
        ]
    })
}

/// The selection that a report is of, or is a part of.
fn selection(report: &Report) -> Selection {
    Selection { shard: None, ..report.header.selection.clone() }
}

fn text(selection: &Selection) -> String {
    serde_json::to_string(selection).unwrap_or_default()
}

/// Refuses parts, in their order, of which one is missing, there twice, or not of the same features.
fn whole(given: &[Given]) -> anyhow::Result<()> {
    let shards = || given.iter().filter_map(|one| one.report.header.selection.shard);
    let of = shards().map(|shard| shard.of).max().unwrap_or(0);
    for number in 1..=of {
        match shards().filter(|shard| shard.number == number).count() {
            1 => {}
            0 => bail!("header.selection.shard: {number}/{of} is lacking"),
            count => bail!("header.selection.shard: {number}/{of} is there {count} times"),
        }
    }
    let lengths: Vec<_> = given.iter().map(|one| one.report.scenarios.len()).collect();
    let total: usize = lengths.iter().sum();
    // As `--shard` deals them out.
    let due = (0..of).map(|at| (total + of - 1 - at) / of.max(1));
    ensure!(
        due.eq(lengths.iter().copied()),
        "totals.selected: {lengths:?} in the parts of {total}: they were not of the same features"
    );
    Ok(())
}

/// Scenarios in the order of the files. Parts got them in turn.
fn in_order(given: Vec<Given>, is_sharded: bool) -> Vec<Record> {
    let longest = given.iter().map(|one| one.report.scenarios.len()).max().unwrap_or(0);
    let mut parts: Vec<_> = given.into_iter().map(|one| one.report.scenarios.into_iter()).collect();
    if is_sharded {
        return (0..longest)
            .flat_map(|_| parts.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
            .collect();
    }
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_by(|one, two| Path::new(&one.file).cmp(Path::new(&two.file)));
    all
}

/// Each lack once, with the scenarios of all parts.
fn lacks(all: impl Iterator<Item = Lack>) -> Vec<Lack> {
    let mut lacks: Vec<Lack> = Vec::new();
    for lack in all {
        match lacks.iter_mut().find(|known| known.what == lack.what) {
            Some(known) => known.scenarios += lack.scenarios,
            None => lacks.push(lack),
        }
    }
    lacks
}

/// Evidence of the reports: the directory that a file is in, and its path there. Refuses what leads elsewhere.
fn files(given: &[Given]) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for Given { path, report, .. } in given {
        for file in report.scenarios.iter().flat_map(|record| &record.evidence) {
            let is_below = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
            ensure!(is_below, "{}: evidence: {file:?} is not below the report", path.display());
            files.push((directory(path).to_owned(), file.clone()));
        }
    }
    Ok(files)
}

/// Largest file of evidence that is carried. A run writes less.
const LARGEST: u64 = 16 << 20;

/// Copies evidence, without secrets. What was left behind where the run was is no longer named. Links, and what is no regular file, are refused.
fn carry(files: &[(PathBuf, String)], to: &Path, scenarios: &mut [Record]) -> anyhow::Result<()> {
    let (to, mut carried) = (Directory::open(to)?, BTreeSet::new());
    for (from, file) in files.iter().filter(|(from, file)| from.join(file).symlink_metadata().is_ok()) {
        let content = Directory::open(from)?.read(file, LARGEST)?;
        to.write(file, redact::evidence(&String::from_utf8_lossy(&content)).as_bytes())?;
        carried.insert(file);
    }
    for record in scenarios {
        record.evidence.retain(|file| carried.contains(file));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
