// SPDX-License-Identifier: Apache-2.0
//! Machine-readable results of a run: `report.json` and `junit.xml` in the report's directory.
//!
//! [`header`] has what a report is about; [`verify`] looks whether one is as a run left it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::cli::RunArgs;
use crate::directory::{self, Directory, LARGEST};
use crate::exit::Exit;
use crate::lacks::{self, Lack};
use crate::locate::Workspace;
use crate::plan::Plan;
use crate::suite::sha256;
use crate::verdict::{self, Record, Totals, milliseconds};

pub mod header;
mod verify;

pub use header::{Header, On};

/// The version of the report's shape; raised when a field changes its meaning.
pub(crate) const SCHEMA: u32 = 6;

/// Reads a report, and returns it with the SHA-256 of its file.
///
/// # Errors
/// It is none, or of another version; it was edited, or contradicts itself.
pub(crate) fn read(path: &Path) -> anyhow::Result<(Report, String)> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let about = || path.display().to_string();
    let above = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(OsStr::to_str).with_context(about)?;
    let text = Directory::open(above)?.read(name, LARGEST)?;
    let Version { schema } = serde_json::from_slice(&text).with_context(about)?;
    ensure!(schema == SCHEMA, "{}: schema: {schema}, and this cnilab reads {SCHEMA}", path.display());
    let report = serde_json::from_slice(&text).with_context(about)?;
    verify::verify(&report).with_context(about)?;
    Ok((report, sha256(&text)))
}

/// Number of scenarios by back end.
pub(crate) fn count(scenarios: &[Record]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in scenarios {
        let names = record.back_ends.iter().filter_map(|taken| Some(taken.split_once(':')?.0));
        for name in names.collect::<BTreeSet<_>>() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Exit of a run. Where optional tools count and one is missing, nothing is green.
fn exit(totals: &Totals, excused: usize, lacks_count: bool) -> Exit {
    match totals.exit(if lacks_count { 0 } else { excused }) {
        Exit::Ok if lacks_count => Exit::Partial,
        exit => exit,
    }
}

/// A run that a merged report has the scenarios of.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// SHA-256 of the file of its report.
    pub sha256: String,
    pub header: Header,
    /// Wall-clock time.
    #[serde(serialize_with = "milliseconds")]
    pub seconds: f64,
    /// Scenarios that could not run for want of an optional tool.
    pub excused: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// Suite, system and environment.
    pub header: Header,
    /// Number of scenarios by verdict.
    pub totals: Totals,
    /// The back ends that the plugin took, by name, with the number of scenarios.
    pub back_ends: BTreeMap<String, usize>,
    /// Number of errors in logs that the product's description excuses, by its text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excused: BTreeMap<String, usize>,
    pub exit: u8,
    /// Optional tools count as well.
    pub strict: bool,
    /// Missing optional tools.
    pub lacks: Vec<Lack>,
    /// Wall-clock time of all scenarios together; of a merged report the sum of its parts.
    #[serde(serialize_with = "milliseconds")]
    pub seconds: f64,
    /// Of a merged report, the runs that it was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Scenarios, in the order of the files.
    pub scenarios: Vec<Record>,
    /// Digest of everything else, by [`verify`]; computed when it is written.
    pub integrity: String,
}

impl Report {
    #[must_use]
    pub fn new(header: Header, plan: &Plan, scenarios: Vec<Record>, seconds: f64) -> Self {
        // What this machine lacks is of no account where scenarios run elsewhere.
        let elsewhere = plan.args.kubeconfig.is_some() || plan.real.is_some();
        let lacks = if elsewhere {
            Vec::new()
        } else {
            lacks::of_run(&header.probes, &scenarios, plan.without_musl.as_deref())
        };
        Self::of(header, scenarios, Vec::new(), (plan.args.strict, lacks), seconds)
    }

    /// The report of these records, with its sums and its exit; `parts` are the runs of a merged one.
    pub(crate) fn of(
        header: Header,
        scenarios: Vec<Record>,
        parts: Vec<Part>,
        (strict, lacks): (bool, Vec<Lack>),
        seconds: f64,
    ) -> Self {
        let mut report = Self {
            schema: SCHEMA,
            totals: Totals::of(scenarios.iter().map(|record| record.verdict)),
            back_ends: count(&scenarios),
            excused: verdict::sum(scenarios.iter().map(|record| &record.excused)),
            exit: 0,
            integrity: String::new(),
            header,
            strict,
            lacks,
            seconds,
            parts,
            scenarios,
        };
        report.exit = report.verdict().code();
        report
    }

    #[must_use]
    pub fn verdict(&self) -> Exit {
        exit(&self.totals, self.excused(), self.strict && !self.lacks.is_empty())
    }

    /// Scenarios that could not run for want of an optional tool, each part by what its own machine can do.
    fn excused(&self) -> usize {
        match self.parts.as_slice() {
            [] => lacks::excused(self.scenarios.iter(), &self.header.probes),
            parts => parts.iter().map(|part| part.excused).sum(),
        }
    }

    /// The runs that it is made of: itself, unless it was merged. `sha256` is that of its file.
    #[must_use]
    pub fn as_parts(&self, sha256: &str) -> Vec<Part> {
        if !self.parts.is_empty() {
            return self.parts.clone();
        }
        let (sha256, header, excused) = (sha256.to_owned(), self.header.clone(), self.excused());
        vec![Part { sha256, header, seconds: self.seconds, excused }]
    }

    /// Writes `report.json`.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let integrity = verify::integrity(self)?;
        let json = serde_json::to_string_pretty(&Self { integrity, ..self.clone() })? + "\n";
        directory::write(dir, "report.json", json.as_bytes())
    }
}

/// The fresh directory of a run's report.
pub(crate) fn of_run(args: &RunArgs, workspace: &Workspace) -> anyhow::Result<(PathBuf, Flock<File>)> {
    fresh(&args.report_dir.clone().unwrap_or_else(|| workspace.lab.join("last")))
}

/// A report's directory without what an earlier run left there, and what holds it for this run. Only what a run writes is removed.
pub(crate) fn fresh(dir: &Path) -> anyhow::Result<(PathBuf, Flock<File>)> {
    let held = hold(dir).context("--report-dir")?;
    for name in
        ["report.json", "junit.xml", "truth.json", "mutants.json", "sweep.json", "sweep.svg", "evidence"]
    {
        remove(&dir.join(name))?;
    }
    Ok((dir.canonicalize()?, held))
}

/// Makes a directory, and holds it (flock(2)) until this process lets go or ends: two runs would replace each other's files.
pub(crate) fn hold(dir: &Path) -> anyhow::Result<Flock<File>> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let opened = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => anyhow!("another cnilab that has not ended writes to {}", dir.display()),
        other => anyhow!("cannot lock {}: {other}", dir.display()),
    })
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let removed = if is_directory { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::verdict::Verdict;

    /// A header of a run in which nothing is remarkable.
    pub(crate) fn header() -> Header {
        serde_json::from_value(serde_json::json!({
            "suite": env!("CARGO_PKG_VERSION"), "tier": "netns", "kernel": "6.1", "back_end": "nft", "seed": "00ab", "jobs": 4,
            "product": {"name": "example", "version": "1", "capabilities": ["istio-cni", "millrace"]}, "binaries": [],
            "privilege": "root", "probes": [], "selection": {"tags": null, "feature": null, "only": [], "rerun": null},
            "ids": {"selected": [], "left_out": []}, "command": ["run"], "began": "2026-01-01T00:00:00.000Z", "ended": "",
            "digests": {"cnilab": "c", "workload": "w", "features": "f", "scenarios": "s"},
            "machine": {
                "kernel": "6.1", "build": "#1", "architecture": "x86_64", "distribution": "D", "security": "none", "cgroups": "v2",
                "tools": {},
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_directory_is_one_runs_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().join("last");
        let (_, held) = fresh(&dir).unwrap();
        std::fs::write(dir.join("report.json"), "{}").unwrap();
        let refused = format!("{:#}", fresh(&dir).unwrap_err());
        assert_eq!(
            refused,
            format!("--report-dir: another cnilab that has not ended writes to {}", dir.display())
        );
        assert!(dir.join("report.json").exists(), "the other's report stays");
        drop(held);
        fresh(&dir).unwrap();
        assert!(!dir.join("report.json").exists());
    }

    #[test]
    fn what_is_optional_counts_in_a_strict_run_alone() {
        let totals = |verdicts: &[Verdict]| Totals::of(verdicts.iter().copied());
        let bare = totals(&[Verdict::Pass, Verdict::Inapplicable]);
        assert_eq!(exit(&bare, 1, false), Exit::Ok);
        assert_eq!(exit(&bare, 1, true), Exit::Partial);
        assert_eq!(exit(&totals(&[Verdict::Pass]), 0, true), Exit::Partial, "only the target is lacking");
        assert_eq!(exit(&totals(&[Verdict::Pass, Verdict::Fail]), 0, true), Exit::Failed);
    }
}
