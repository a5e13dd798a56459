// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

const EXAMPLES: &str = "\
Examples:
  cnilab run                               every feature, against this workspace
  cnilab run --tags '@redirection and not @ipv6'
  cnilab run --only redirection/outbound:12
  cnilab run --strict                      the same, and nothing optional may be lacking
  cnilab run --sut /opt/cni/bin            against somebody else's binaries
  cnilab run --kubeconfig FILE             against a cluster that is there, which gets nothing but pods for a while
  cnilab run --mutant all                  every named defect, against the scenarios that must catch it
  cnilab run --mutant all --quick          each against one of them: what gates a change
  cnilab build                             the production plugin only; prints its directory
  cnilab list                              scenarios, their needs and steps
  cnilab up                                a cluster that stays, for kubectl; Ctrl-C ends it
  cnilab steps conflist                    steps that speak of it, with examples
  cnilab doctor                            what this machine can do

Exit codes:
  0    everything that was selected ran and holds
  1    the system under test failed, or a defect was not caught
  2    the command line is wrong, or selects nothing
  3    inconclusive: the harness failed
  4    partial: something that is needed could not run here (what is optional is listed; --strict counts it, too)
  130  interrupted";

/// Runs features against production CNI binaries and says which behaviours hold.
#[derive(Debug, Parser)]
#[command(name = "cnilab", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Builds the binaries, enters a sandbox and runs features
    #[command(after_help = EXAMPLES)]
    Run(RunArgs),
    /// Starts a cluster that stays until Ctrl-C, and prints how kubectl reaches it
    Up(UpArgs),
    /// Builds the production binaries as a run does and prints the directory that they are in
    Build(BuildArgs),
    /// Lists features, scenarios, what they need and the defects that they must catch
    List(Selection),
    /// Prints the vocabulary: every step, its description and an example from the features
    Steps {
        /// Only steps with this text in them, as in `cnilab steps conflist`
        #[arg(value_name = "TEXT", default_value = "")]
        word: String,
    },
    /// Says what this machine can do, how that was found out, and how to get what is lacking
    Doctor {
        /// Exit code 4 also for what is optional
        #[arg(long)]
        strict: bool,
    },
    /// The first process of the sandbox; its orders come over standard input
    #[command(hide = true)]
    Inside,
    /// Gives the process PID a range of users and groups, once standard input says that it is in its namespace
    #[command(hide = true)]
    MapIds {
        /// The process.
        pid: u32,
    },
}

/// Which scenarios.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct Selection {
    /// Only scenarios whose tags satisfy this expression, as in `@redirection and not @ipv6`
    #[arg(long, value_name = "EXPR")]
    pub tags: Option<String>,
    /// Only this feature file, or the features below this directory
    #[arg(long, value_name = "PATH")]
    pub feature: Option<PathBuf>,
    /// Only the scenario at this line of a feature, as in `redirection/outbound:12`
    #[arg(long, value_name = "FILE:LINE")]
    pub only: Vec<String>,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct RunArgs {
    /// Which scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// The directory with the binaries under test; without it they are built from this workspace
    #[arg(long, value_name = "DIR")]
    pub sut: Option<PathBuf>,
    /// Plays this named defect, or `all`, and says whether the scenarios that name it catch it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["sut", "keep"])]
    pub mutant: Option<String>,
    /// With --mutant: each defect only against the first scenario that names it
    #[arg(long, requires = "mutant")]
    pub quick: bool,
    /// Exit code 4 also where only what is optional is lacking: the iptables tools, the musl target
    #[arg(long, conflicts_with = "mutant")]
    pub strict: bool,
    /// Leaves the sandbox standing after the last scenario, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
    /// Where reports and evidence go [default: target/lab/last]
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Runs against the cluster of this kubeconfig, through pods and its API alone; what it cannot show is inapplicable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sut", "mutant", "keep"])]
    pub kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: an image of the lab's pods that its nodes have or can pull, with `workload` in its PATH
    #[arg(long, value_name = "REF", requires = "kubeconfig", default_value = "workload")]
    pub image: String,
    /// Scenarios at a time [default: four times the number of cores, with --mutant eight times]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Repeats a run's order of events
    #[arg(long, value_name = "HEX", value_parser = parse_seed)]
    pub seed: Option<u32>,
}

/// Arguments of `up`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct UpArgs {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub nodes: u8,
    /// Where the kubeconfig goes [default: target/lab/up/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The directory with the binaries of the nodes; without it they are built from this workspace
    #[arg(long, value_name = "DIR")]
    pub sut: Option<PathBuf>,
    /// Port of the API on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Nodes without the mesh plugin, for whoever installs a node agent themselves
    #[arg(long)]
    pub bare: bool,
    /// What is printed once the cluster is there
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Format {
    /// Commands to type
    #[default]
    Text,
    /// One line of JSON: kubeconfig, server
    Json,
}

/// Arguments of `build`.
#[derive(Debug, Clone, Args)]
pub struct BuildArgs {
    /// Builds them with all named defects instead, as --mutant does
    #[arg(long)]
    pub mutants: bool,
}

fn parse_seed(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|_| "a seed is up to eight hexadecimal digits".to_owned())
}
