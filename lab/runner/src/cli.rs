// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use cluster::choice::{Choice, NetworkName, RuntimeName, Version};
use serde::{Deserialize, Serialize};

const EXAMPLES: &str = "\
Examples:
  cnilab run                               every feature, against this workspace
  cnilab run --tags '@redirection and not @ipv6'
  cnilab run --only redirection/outbound        a feature; as well a scenario, a row (cnilab list has all ids) or FILE:LINE
  cnilab run --strict                      the same, and nothing optional may be lacking
  cnilab run --sut FILE                    against somebody else's product, as FILE describes it
  cnilab run --kubeconfig FILE --image REF against a cluster that is there, which gets namespaces and pods for a while
  cnilab run --real --runtime crio --only race   in a cluster of Kubernetes and CRI-O themselves, which cnilab components builds
  cnilab run --api kubernetes --only race  with the lab's nodes at an API server of Kubernetes; with --real, `--api embedded` is the reverse
  cnilab run --container                   in a container of Docker or Podman, without root on the host
  cnilab run --mutant all                  every named defect, against the scenarios that must catch it
  cnilab run --mutant all --quick          each against one of them: what gates a change
  cnilab run --rerun target/lab/last/report.json   what did not pass there
  cnilab run --stress 20 --only serve/watch        each scenario twenty times; what does not always pass is flaky
  cnilab run --retries 1                   what failed once more; what passes then is flaky (5), not passed
  cnilab run --shard 2/4                   the second quarter, for the second of four machines
  cnilab merge one.json two.json           the reports of all parts as one; the exit code is that of the whole
  cnilab pack cnilab                       this program with all that it needs in one file: elsewhere, ./cnilab run --sut DIR
  cnilab completion bash                   what the shell should load
  cnilab build                             the production plugin only; prints its directory
  cnilab list                              scenarios, their needs and steps
  cnilab up                                a cluster that stays, for kubectl; Ctrl-C ends it
  cnilab sweep race                        situations x policies of scenarios/sweeps/race.yaml as one table
  cnilab up --real --nodes 2               one of Kubernetes and containerd themselves, which cnilab components builds
  cnilab up --real --runtime crio --network multus-thick
                                           the same with CRI-O, and Multus between it and the standard plugins
  cnilab clean --kubeconfig FILE           removes what a run that was killed left in a cluster
  cnilab components build                  builds them, once, into a cache
  cnilab steps conflist                    steps that speak of it, with examples
  cnilab doctor                            what this machine can do

Exit codes:
  0    everything that was selected ran and holds
  1    the system under test failed, or a defect was not caught
  2    the command line is wrong, or selects nothing
  3    inconclusive: the harness failed
  4    partial: something that was selected did not run: it cannot here, or the product under test does not claim it
       (what is optional is listed; --strict counts it, too)
  5    flaky: nothing failed each time or was inconclusive, and a scenario did not pass each time (--retries, --stress)
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
    Run(Box<RunArgs>),
    /// Starts a cluster that stays until Ctrl-C, and prints how kubectl reaches it
    Up(UpArgs),
    /// Removes what `run --kubeconfig` left in a cluster where it was killed, and all of runs that still go on: namespaces, pods, nodes, cordons,
    /// cluster-wide objects, by their label cnilab.millrace.dev/run
    Clean {
        /// Of that cluster
        #[arg(long, value_name = "FILE")]
        kubeconfig: PathBuf,
        /// The kubeconfig may run programs: its user's `exec`
        #[arg(long)]
        kubeconfig_exec: bool,
    },
    /// Builds real components (Kubernetes, container runtimes, plugins) into a cache, and says what is there
    #[command(subcommand)]
    Components(ComponentsCommand),
    /// Builds the production binaries as a run does and prints the directory that they are in
    Build(BuildArgs),
    /// Writes this program with features, scenarios and the pods' binary to one file, which needs neither a workspace nor a compiler
    Pack {
        /// The file
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Writes the images that `run --kubeconfig` needs to an archive (OCI layout) and prints their names: for nodes that no registry reaches, as in
    /// `kind load image-archive FILE`
    Image {
        /// The archive
        #[arg(value_name = "FILE")]
        to: PathBuf,
        /// The product whose `istio-iptables` the proxy's image has; as with `run`
        #[arg(long, value_name = "DIR|FILE")]
        sut: Option<PathBuf>,
    },
    /// Plays every cell of a sweep and prints what was measured; also as sweep.json and sweep.svg in the report's directory
    Sweep(SweepArgs),
    /// Makes one report of those of all parts of a selection (--shard), or of runs without a scenario in common
    Merge(MergeArgs),
    /// Prints what a shell has to load to complete this program's command line
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
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
    /// The first process of a container; its orders are in this file
    #[cfg(feature = "container")]
    #[command(hide = true)]
    Contained {
        /// The orders
        orders: PathBuf,
    },
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
    /// Only the scenario of this id, all whose ids begin so (a feature, an outline), or those at this line of a feature
    #[arg(long, value_name = "ID|FILE:LINE")]
    pub only: Vec<String>,
    /// Only what did not pass in the run of this report.json
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub rerun: Option<PathBuf>,
    /// The report whose scenarios are run again, once its ids are among `only`.
    #[arg(skip)]
    #[serde(default, rename = "rerun")]
    pub reran: Option<Reran>,
    /// Only the part I of N: each selected scenario is in exactly one, whatever machine asks
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<Shard>,
}

/// A report whose scenarios are run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reran {
    pub report: PathBuf,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

/// A part of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    pub of: usize,
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
        _ => Err("a part is I/N, with I from 1 to N".to_owned()),
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct RunArgs {
    /// Which scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// The product under test: its description (docs/lab.md), or a directory with its binaries; without it they are built from this workspace
    #[arg(long, value_name = "DIR|FILE")]
    pub sut: Option<PathBuf>,
    /// Plays this named defect, or `all`, and says whether the scenarios that name it catch it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["sut", "keep"])]
    pub mutant: Option<String>,
    /// With --mutant: each defect only against the first scenario that names it
    #[arg(long, requires = "mutant")]
    pub quick: bool,
    /// With --mutant: a report of the same tree. What passed there is not played once more without a defect
    #[arg(long, value_name = "FILE", requires = "mutant")]
    pub control: Vec<PathBuf>,
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
    #[arg(long, value_name = "FILE", requires = "image", conflicts_with_all = ["mutant", "keep"])]
    pub kubeconfig: Option<PathBuf>,
    /// With --kubeconfig: it may run programs, as its user's `exec` (EKS, GKE, AKS): only where it is from somebody you trust
    #[arg(long, requires = "kubeconfig")]
    #[serde(default)]
    pub kubeconfig_exec: bool,
    /// With --kubeconfig: an image of the lab's pods that its nodes have or can pull, with `workload` in its PATH
    #[arg(long, value_name = "REF", requires = "kubeconfig")]
    pub image: Option<String>,
    /// With --kubeconfig: the run has the cluster to itself. Scenarios deploy the node agent with this image, one after the other, and change the
    /// node; the cluster has no agent of its own, and the image `proxyv2` of the same registry and tag has istio-iptables
    #[arg(long, value_name = "REF", requires = "kubeconfig")]
    pub agent_image: Option<String>,
    /// The cluster, if the run starts one of real components.
    #[command(flatten)]
    pub on: RealArgs,
    /// Plays the run in a container of Docker or Podman, for who has no root on the host; with --real or --api kubernetes its image has the
    /// components (docs/lab.md)
    #[arg(long, conflicts_with_all = ["kubeconfig", "mutant", "keep"])]
    pub container: bool,
    /// Scenarios at a time [default: twelve times the number of cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Delays the lab's own actors by chance: kubelet, controllers, events of watches, starts of processes
    #[arg(long, value_name = "HEX", value_parser = parse_seed, conflicts_with_all = ["kubeconfig", "real"])]
    pub chaos: Option<u64>,
    /// Runs each scenario N times: one whose verdicts differ is flaky
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..), conflicts_with = "mutant")]
    pub stress: Option<u16>,
    /// Runs a scenario that failed, or of which nothing is known, up to N times more after all others: one that passes then is flaky
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10), conflicts_with_all = ["mutant", "stress", "keep"])]
    pub retries: Option<u16>,
    /// Repeats a run's order of events
    #[arg(long, value_name = "HEX", value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// The words of the command line, without the program.
    #[arg(skip)]
    #[serde(default)]
    pub command: Vec<String>,
    /// As root, too, in a user namespace: nothing of the run, a product of strangers above all, is root on this machine
    #[arg(long, conflicts_with_all = ["kubeconfig", "real"])]
    #[serde(default)]
    pub user_namespace: bool,
    /// Draws names of pods and nodes, addresses and paths by the seed: a product cannot know the lab by them
    #[arg(long, conflicts_with_all = ["kubeconfig", "real"])]
    #[serde(default)]
    pub randomize_names: bool,
    /// The sweep whose cells are the scenarios.
    #[arg(skip)]
    #[serde(default)]
    pub sweep: Option<Box<Wanted>>,
}

/// A cluster of real components for a run.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct RealArgs {
    /// Starts one cluster of real components (as `up --real` does) and plays all scenarios there, one after the other
    #[arg(long, conflicts_with_all = ["kubeconfig", "mutant", "keep"])]
    pub real: bool,
    /// With --real: number of nodes
    #[arg(long, value_name = "N", requires = "real", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub nodes: u8,
    /// With --real, or --api kubernetes: Kubernetes' version
    #[arg(long, value_enum, default_value_t)]
    pub version: Version,
    /// With --real: the nodes' container runtime
    #[arg(long, value_enum, requires = "real", default_value_t)]
    pub runtime: RuntimeName,
    /// With --real: the pods' network
    #[arg(long, value_enum, requires = "real", default_value_t)]
    pub network: NetworkName,
    /// The API server [default: kubernetes with --real, else embedded]. Without --real, each scenario starts one of Kubernetes, for the lab's nodes
    #[arg(long, value_enum, conflicts_with_all = ["kubeconfig", "mutant"])]
    pub api: Option<NodeApi>,
}

impl RealArgs {
    /// The API server of its nodes.
    #[must_use]
    pub fn api(&self) -> NodeApi {
        let usual = if self.real { NodeApi::Kubernetes } else { NodeApi::Embedded };
        self.api.unwrap_or(usual)
    }

    /// True if something of it is a real component.
    #[must_use]
    pub fn needs_components(&self) -> bool {
        self.real || self.api() == NodeApi::Kubernetes
    }
}

/// As they stand in a command line, each after a space.
impl fmt::Display for RealArgs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: Option<PossibleValue>| value.map(|value| value.get_name().to_owned());
        let (runtime, network) = (self.runtime.to_possible_value(), self.network.to_possible_value());
        let (runtime, network) = (value(runtime).unwrap_or_default(), value(network).unwrap_or_default());
        if self.real {
            write!(out, " --real --nodes {} --runtime {runtime} --network {network}", self.nodes)?;
        }
        match self.api.and_then(|api| value(api.to_possible_value())) {
            Some(api) => write!(out, " --api {api}"),
            None => Ok(()),
        }
    }
}

/// Which cells of which sweep.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wanted {
    pub name: String,
    /// Only cells whose titles have one of these texts in them; all without any.
    pub only: Vec<String>,
    /// A file for the measured cells, beside those in the report's directory.
    pub write: Option<PathBuf>,
}

/// Arguments of `sweep`.
#[derive(Debug, Clone, Args)]
pub struct SweepArgs {
    /// The sweep, as in scenarios/sweeps/NAME.yaml
    pub name: String,
    /// Only cells with this text in their titles, as in `repair pods: fresh node, 5 s`
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Another product, as with `run`
    #[arg(long, value_name = "DIR|FILE")]
    pub sut: Option<PathBuf>,
    /// Also writes what was measured to this file, as scenarios/sweeps/race/millrace.json, which docs/race.md is made of
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Where reports go [default: target/lab/sweep]
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Cells at a time [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
}

impl SweepArgs {
    /// The run that plays it.
    ///
    /// # Errors
    /// The file to write has no absolute path.
    pub fn run(self, report_dir: PathBuf) -> std::io::Result<RunArgs> {
        let write = self.write.map(std::path::absolute).transpose()?;
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(1));
        Ok(RunArgs {
            sut: self.sut,
            report_dir: Some(self.report_dir.unwrap_or(report_dir)),
            jobs: Some(self.jobs.unwrap_or(cores)),
            sweep: Some(Box::new(Wanted { name: self.name, only: self.only, write })),
            ..RunArgs::default()
        })
    }
}

/// Arguments of `merge`.
#[derive(Debug, Clone, Args)]
pub struct MergeArgs {
    /// The reports
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
    /// Where the report, JUnit and the parts' evidence go [default: target/lab/merged]
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
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
    /// The product on the nodes: its description, or a directory with its binaries; without it they are built from this workspace
    #[arg(long, value_name = "DIR|FILE")]
    pub sut: Option<PathBuf>,
    /// Port of the API on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Of real components, which `cnilab components build` builds: Kubernetes, a container runtime, the standard plugins
    #[arg(long)]
    pub real: bool,
    /// The version of Kubernetes' own parts
    #[arg(long, value_enum, default_value_t, requires = "real")]
    pub version: Version,
    /// The nodes' container runtime; on nodes that are not real its stand-in
    #[arg(long, value_enum, default_value_t)]
    pub runtime: RuntimeName,
    /// The pods' network of real nodes
    #[arg(long, value_enum, default_value_t, requires = "real")]
    pub network: NetworkName,
    /// The API server that real nodes join [default: kubernetes]
    #[arg(long, value_enum, requires = "real")]
    pub api: Option<NodeApi>,
    /// File for the calls of the network's first CNI plugin, a line of JSON each; without --real it is written when the cluster ends
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Nodes without the mesh plugin, for whoever installs a node agent themselves
    #[arg(long)]
    pub bare: bool,
    /// What is printed once the cluster is there
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

/// API server of real nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum NodeApi {
    /// Of Kubernetes, with etcd and its own controllers and scheduler
    #[default]
    Kubernetes,
    /// The lab's, with its controllers and scheduler
    Embedded,
}

/// What to do with components.
#[derive(Debug, Clone, Subcommand)]
pub enum ComponentsCommand {
    /// Builds what is not there yet; needs Go. What was finished stays, whatever ends it
    Build {
        /// Components [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Lists components: version, size, what is missing
    List {
        /// What is printed
        #[arg(long, value_enum, default_value_t)]
        output: Format,
    },
    /// Prints the directory of a component's binaries
    Path {
        /// The component
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Form of what is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One line of JSON
    Json,
}

/// Arguments of `build`.
#[derive(Debug, Clone, Args)]
pub struct BuildArgs {
    /// Builds them with all named defects instead, as --mutant does
    #[arg(long)]
    pub mutants: bool,
}

fn parse_seed(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "a seed is up to sixteen hexadecimal digits".to_owned())
}
