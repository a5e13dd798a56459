// SPDX-License-Identifier: Apache-2.0
//! Machine-readable results of a run: `report.json` and `junit.xml` in the report's directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use cluster::Probe;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::cli::{RunArgs, Selection};
use crate::exit::Exit;
use crate::lacks::{self, Lack};
use crate::locate::Workspace;
use crate::plan::{Binary, Place, Plan, Privilege};
use crate::product::Product;
use crate::verdict::{self, Record, Totals};

/// The version of the report's shape; raised when a field changes its meaning.
pub(crate) const SCHEMA: u32 = 5;

/// Reads a report.
///
/// # Errors
/// It is none, or of another version.
pub(crate) fn read(path: &Path) -> anyhow::Result<Report> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let about = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(about)?;
    let Version { schema } = serde_json::from_str(&text).with_context(about)?;
    ensure!(schema == SCHEMA, "{}: schema: {schema}, and this cnilab reads {SCHEMA}", path.display());
    serde_json::from_str(&text).with_context(about)
}

/// Product under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// As its description says; a directory's path, if it has none.
    pub name: String,
    pub version: String,
    /// Claimed capabilities.
    pub capabilities: Vec<String>,
    /// Texts in messages of level `error` that it excuses in any scenario, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
}

impl Tested {
    fn new(product: &Product) -> Self {
        let Product { name, version, claims, errors, .. } = product.clone();
        Self { name, version, capabilities: claims, errors }
    }
}

/// Suite, system and environment of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub suite: String,
    pub tier: String,
    /// Release of the kernel.
    pub kernel: String,
    /// The back end that is right on this machine, by a look into a namespace of its own.
    pub back_end: String,
    pub seed: String,
    /// Seed of the delays of the lab's actors, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos: Option<String>,
    /// Runs of each scenario, if there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stress: Option<u16>,
    /// Most further runs of a scenario that did not pass, if there were to be any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u16>,
    pub product: Tested,
    pub binaries: Vec<Binary>,
    /// Privilege of the sandbox.
    pub privilege: Privilege,
    /// Capabilities of the environment.
    pub probes: Vec<Probe>,
    /// Concurrent scenarios.
    pub jobs: usize,
    /// Selection of scenarios: empty for all.
    pub selection: Selection,
}

impl Header {
    /// Gathers everything known before the first scenario.
    #[must_use]
    pub fn new(plan: &Plan, place: &Place, tier: &str, probes: Vec<Probe>, back_end: String) -> Self {
        Self {
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            tier: tier.to_owned(),
            kernel: kernel_release(),
            back_end,
            seed: plan.seed_text(),
            chaos: plan.args.chaos.map(|seed| format!("{seed:x}")),
            stress: plan.args.stress,
            retries: plan.args.retries,
            product: Tested::new(&plan.sut.product),
            binaries: plan.sut.binaries.clone(),
            privilege: place.privilege.clone(),
            probes,
            jobs: plan.jobs,
            selection: plan.args.selection.clone(),
        }
    }

    /// First line of a run's output.
    #[must_use]
    pub fn line(&self) -> String {
        let about = |Binary { name, version, sha256, .. }: &Binary| {
            format!("{name} {version} (sha256 {}…)", sha256.get(..8).unwrap_or(sha256))
        };
        let binaries: Vec<_> = self.binaries.iter().map(about).collect();
        format!(
            "cnilab {} · {} · kernel {} · back end {} · seed {} · {}",
            self.suite,
            self.tier,
            self.kernel,
            self.back_end,
            self.seed,
            binaries.join(" · "),
        )
    }
}

/// The kernel's release, as `uname -r` prints it.
#[must_use]
pub fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
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
    pub header: Header,
    /// Wall-clock time.
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
    pub seconds: f64,
    /// Of a merged report, the runs that it was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Scenarios, in the order of the files.
    pub scenarios: Vec<Record>,
}

impl Report {
    #[must_use]
    pub fn new(header: Header, plan: &Plan, scenarios: Vec<Record>, seconds: f64) -> Self {
        let totals = Totals::of(scenarios.iter().map(|record| record.verdict));
        // What this machine lacks is of no account where scenarios run elsewhere.
        let elsewhere = plan.args.kubeconfig.is_some() || plan.real.is_some();
        let lacks = if elsewhere {
            Vec::new()
        } else {
            lacks::of_run(&header.probes, &scenarios, plan.without_musl.as_deref())
        };
        let (strict, back_ends) = (plan.args.strict, count(&scenarios));
        let (schema, parts) = (SCHEMA, Vec::new());
        let excused = verdict::sum(scenarios.iter().map(|record| &record.excused));
        let mut report = Self {
            schema,
            header,
            totals,
            back_ends,
            excused,
            exit: 0,
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
        // Each part by what its own machine can do.
        let excused = self.as_parts().iter().map(|part| part.excused).sum();
        exit(&self.totals, excused, self.strict && !self.lacks.is_empty())
    }

    /// The runs that it is made of: itself, unless it was merged.
    #[must_use]
    pub fn as_parts(&self) -> Vec<Part> {
        if !self.parts.is_empty() {
            return self.parts.clone();
        }
        let excused = self.scenarios.iter().filter(|record| lacks::is_excused(record, &self.header.probes));
        vec![Part { header: self.header.clone(), seconds: self.seconds, excused: excused.count() }]
    }

    /// Writes `report.json`.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = dir.join("report.json");
        let json = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))
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
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

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
