// SPDX-License-Identifier: Apache-2.0
//! A sweep: situations x policies x lateness, as data (`scenarios/sweeps/`). Each cell is a scenario whose steps are those of features; what
//! it measures is collected in one table. A sweep judges nothing: it says what happens.
//!
//! | part | what it is |
//! |---|---|
//! | `outcome` | what a cell measured, and the file of all of them |
//! | `table` | the same for a terminal |
//! | `draw` | as a picture |
//! | `page` | as a page of the documentation, of several products |

mod draw;
pub mod outcome;
mod page;
mod table;

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

pub use outcome::{Cell, Measured, Outcome};
pub use page::page;

use crate::cli::Wanted;
use crate::directory;

/// Directory of all sweeps.
const SWEEPS: &str = "scenarios/sweeps";

/// The data of a sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub question: String,
    pub situations: Vec<Situation>,
    pub policies: Vec<Policy>,
    /// What others say, each with what is then to be seen in a cell.
    pub claims: Vec<Claim>,
}

/// What happens, and to which node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub name: String,
    pub about: String,
    /// Seconds of a real cluster by which the agent is late.
    pub late: Vec<u32>,
    /// Steps before those of the policy: what the node is.
    pub node: Vec<String>,
    /// Steps behind them, before there is a pod.
    #[serde(default)]
    pub given: Vec<String>,
    /// Interval of each sender.
    #[serde(default = "five")]
    pub every_ms: u64,
    /// Seconds after which nothing more is expected; four are 160 of a real cluster.
    #[serde(default = "four")]
    pub window: u64,
    /// Steps once the pod is described; `<late>` is how late the agent is.
    pub when: Vec<String>,
}

fn five() -> u64 {
    5
}

fn four() -> u64 {
    4
}

/// What somebody does about it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub name: String,
    pub about: String,
    /// True for what only Millrace has.
    #[serde(default)]
    pub millrace: bool,
    /// Steps before the agent is there.
    #[serde(default)]
    pub given: Vec<String>,
    /// Steps about the pod.
    #[serde(default)]
    pub pod: Vec<String>,
}

/// A sentence of somebody else's, and what it foretells.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub says: String,
    pub policy: String,
    pub situation: String,
    pub sees: Vec<Sight>,
}

/// Something to be seen in every cell of a policy in a situation where the agent is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    Exposed,
    NotExposed,
    Ready,
    NotReady,
    Replaced,
    NotReplaced,
    Labelled,
}

impl Sweep {
    /// Reads `scenarios/sweeps/NAME.yaml`.
    ///
    /// # Errors
    /// There is none, or it is malformed.
    pub fn read(root: &Path, name: &str) -> anyhow::Result<Self> {
        let path = root.join(SWEEPS).join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("there is no sweep {name:?}: cannot read {}", path.display()))?;
        let sweep: Self =
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        for claim in &sweep.claims {
            let known = sweep.policies.iter().any(|policy| policy.name == claim.policy)
                && sweep.situations.iter().any(|situation| situation.name == claim.situation);
            if !known {
                bail!(
                    "{}: a claim about {:?} in {:?}, which is no cell",
                    path.display(),
                    claim.policy,
                    claim.situation
                );
            }
        }
        Ok(sweep)
    }

    /// All cells, in the order of the file.
    pub fn cells(&self) -> impl Iterator<Item = (&Situation, &Policy, u32)> {
        self.situations.iter().flat_map(move |situation| {
            let policies = self.policies.iter();
            policies.flat_map(move |policy| situation.late.iter().map(move |late| (situation, policy, *late)))
        })
    }

    /// A feature with the wanted cells as its scenarios.
    #[must_use]
    pub fn feature(&self, name: &str, only: &[String]) -> String {
        let mut text = format!("@real-kernel @install-cni\nFeature: sweep {name}\n");
        for (situation, policy, late) in self.cells() {
            let title = title(situation, policy, late);
            if !only.is_empty() && !only.iter().any(|text| title.contains(text.as_str())) {
                continue;
            }
            let measured = format!(
                "Given exposure of pod \"cart\" is measured every {} ms, inbound as well",
                situation.every_ms
            );
            let begin = situation.node.iter().chain(&policy.given).chain(&situation.given).cloned();
            let pod =
                ["Given pod \"cart\" of the mesh".to_owned()].into_iter().chain(policy.pod.iter().cloned());
            let when = situation.when.iter().map(|step| step.replace("<late>", &late.to_string()));
            let steps = begin.chain(pod).chain([measured]).chain(when);
            let tag = if policy.millrace { "\n  @millrace" } else { "" };
            text.push_str(&format!("{tag}\n  Scenario: {title}\n"));
            let told = format!("Then what became of pod \"cart\" within {} s is told", situation.window);
            for step in steps.chain([told]) {
                text.push_str(&format!("    {step}\n"));
            }
        }
        text
    }
}

/// Title of a cell's scenario.
pub(crate) fn title(situation: &Situation, policy: &Policy, late: u32) -> String {
    format!("{}: {}, {late} s", policy.name, situation.name)
}

/// The names of all sweeps.
///
/// # Errors
/// The directory cannot be read.
pub fn names(root: &Path) -> anyhow::Result<Vec<String>> {
    let directory = root.join(SWEEPS);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        names.extend(stem.filter(|_| path.extension().is_some_and(|kind| kind == "yaml")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Writes what was measured, `sweep.json` and `sweep.svg` in the report's directory, and returns its table.
///
/// # Errors
/// A file cannot be written.
pub fn tell(
    root: &Path,
    wanted: &Wanted,
    mut measured: Measured,
    report_dir: &Path,
) -> anyhow::Result<String> {
    let sweep = Sweep::read(root, &wanted.name)?;
    let place =
        |cell: &Cell| sweep.cells().position(|(situation, policy, late)| cell.is(situation, policy, late));
    measured.cells.sort_by_key(place);
    let json = measured.json()?;
    let svg = draw::svg(&sweep, &measured);
    directory::write(report_dir, "sweep.json", json.as_bytes())?;
    directory::write(report_dir, "sweep.svg", svg.as_bytes())?;
    if let Some(path) = &wanted.write {
        let name = path.file_name().with_context(|| format!("{} has no name", path.display()))?;
        let above = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
        directory::write(above, &name.to_string_lossy(), json.as_bytes())?;
    }
    Ok(table::render(&measured))
}

#[cfg(test)]
mod tests;
