// SPDX-License-Identifier: Apache-2.0
//! Costs of the node agent: the real `install-cni` beside an embedded API server, in namespaces of this process and with a root directory
//! of its own. Each figure stands beside its goal. A goal that is missed, or a part that could not be measured, is said in the report and
//! fails nothing: whoever reads it decides.
//!
//! `cargo bench -p benches --bench agent -- [--quick] [--agent PATH] [--plugin PATH] [--peer PATH] [--json PATH] [PART]...`
//!
//! | part | what it measures |
//! |---|---|
//! | `node` | a node: directories, API server, agent |
//! | `pods` | pods of a realistic size |
//! | `life` | start to ready, clobbered to healed, ended |
//! | `memory` | the resident set with 110 and 1,000 pods |
//! | `socket` | requests of the plugin, alone and 110 at a time; 110 ADDs |
//! | `idle` | requests to the API server while nothing happens |
//! | `repair` | a broken pod, from its status to its rules |

#![expect(clippy::print_stdout, reason = "the report is the product")]

mod idle;
mod life;
mod memory;
mod node;
mod pods;
mod repair;
mod socket;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use benches::report::{self, Cell, Effort, Table};
use benches::rounds::{quantile, sorted};
use clap::{Parser, ValueEnum};

use node::Binaries;

/// Measures the node agent.
#[derive(Debug, Parser)]
struct Options {
    /// Little of everything: proves that the bench runs, its figures are worth nothing.
    #[arg(long)]
    quick: bool,
    /// The agent; built if not given.
    #[arg(long)]
    agent: Option<PathBuf>,
    /// The plugin; built if not given.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Another agent, for instance upstream's: start and heal take turns with it.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Where the figures go as JSON; `target/agent.json` if not given.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The parts that are measured; all of them if none is given.
    parts: Vec<Part>,
    /// A client of the part `socket`.
    #[arg(long, hide = true)]
    ask: Option<PathBuf>,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Start to ready, clobbered to healed, told to end to ended.
    Life,
    /// The resident set with 110 and 1,000 pods.
    Memory,
    /// Requests of the plugin, alone and 110 at a time.
    Socket,
    /// ADDs of the real plugin, 110 at once.
    Adds,
    /// Requests to the API server while nothing happens.
    Idle,
    /// A broken pod, from its status to its rules.
    Repair,
}

/// Figures so far.
struct Figures(Table);

/// Upper bound of a figure.
#[derive(Debug, Clone, Copy)]
struct Goal {
    most: f64,
    unit: &'static str,
}

impl Figures {
    fn new() -> Self {
        Self(Table::new("The agent", &["what", "times", "p50", "p99", "most", "unit", "goal"]))
    }

    /// Adds samples, summarized by the goal's quantile.
    fn samples(&mut self, what: &str, samples: Vec<f64>, judged: f64, goal: Goal) {
        let samples = sorted(samples);
        let verdict = judge(quantile(&samples, judged), goal);
        let at = |part| Cell::from(quantile(&samples, part));
        let count = Cell::from(samples.len() as f64);
        self.0.row(what, vec![count, at(0.5), at(0.99), at(1.0), goal.unit.into(), verdict]);
    }

    fn one(&mut self, what: &str, figure: f64, goal: Goal) {
        let verdict = judge(figure, goal);
        let nothing = || Cell::Nothing;
        self.0.row(what, vec![1.0.into(), nothing(), nothing(), figure.into(), goal.unit.into(), verdict]);
    }

    /// Adds a remark on a figure without a goal or a measurement.
    fn note(&mut self, what: &str, words: &str) {
        println!("{what}: {words}");
        self.0.row(
            what,
            vec![Cell::Nothing, Cell::Nothing, Cell::Nothing, Cell::Nothing, Cell::Nothing, words.into()],
        );
    }

    /// Runs a part; its failure becomes a remark.
    fn part(&mut self, part: Part, measure: impl FnOnce(&mut Self) -> Result<()>) {
        let name = format!("{part:?}").to_lowercase();
        println!("measuring: {name}");
        if let Err(error) = measure(self) {
            self.note(&name, &format!("NOT MEASURED: {error:#}").replace('\n', " / "));
        }
    }
}

fn judge(figure: f64, Goal { most, unit }: Goal) -> Cell {
    let verdict = if figure <= most { "met" } else { "MISSED" };
    Cell::Text(format!("<= {most} {unit}: {verdict}"))
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(socket) = &options.ask {
        return socket::client(socket);
    }
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let binaries = binaries(&options)?;
    // Before any thread: all threads of this process, the API server's among them, live on the node.
    node::enter_own_namespaces()?;
    let mut figures = Figures::new();
    let parts = if options.parts.is_empty() { Part::value_variants() } else { &options.parts };
    for part in parts {
        figures.part(*part, |figures| match part {
            Part::Life => life::measure(effort, &binaries, options.peer.as_deref(), figures),
            Part::Memory => memory::measure(effort, &binaries, figures),
            Part::Socket => socket::measure(effort, &binaries, figures),
            Part::Adds => socket::adds(&binaries, figures),
            Part::Idle => idle::measure(effort, &binaries, figures),
            Part::Repair => repair::measure(effort, &binaries, figures),
        });
    }
    let tables = [figures.0];
    println!("\n{}", tables[0]);
    let in_target = || -> Result<PathBuf> {
        let binary = std::env::current_exe()?;
        Ok(binary.ancestors().nth(4).context("not in a target directory")?.join("agent.json"))
    };
    let path = options.json.map_or_else(in_target, Ok)?;
    std::fs::write(&path, format!("{:#}\n", report::json(&tables)))?;
    println!("figures as JSON: {}", path.display());
    Ok(())
}

/// Binaries under test: as given, else built as the lab builds them.
fn binaries(options: &Options) -> Result<Binaries> {
    let built = |name: &str| -> Result<PathBuf> {
        let output = rig::cargo().args(["lab", "build"]).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "`cargo lab build` failed: {}", output.status);
        let said = String::from_utf8(output.stdout)?;
        Ok(Path::new(said.lines().last().context("`cargo lab build` printed nothing")?).join(name))
    };
    let found = |given: &Option<PathBuf>, name| -> Result<PathBuf> {
        let path = given.clone().map_or_else(|| built(name), Ok)?;
        path.canonicalize().with_context(|| format!("find {}", path.display()))
    };
    Ok(Binaries {
        agent: found(&options.agent, "install-cni")?,
        plugin: found(&options.plugin, "istio-cni")?,
    })
}
