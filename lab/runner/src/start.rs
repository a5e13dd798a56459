// SPDX-License-Identifier: Apache-2.0
//! From the command line to what it asks for. What a run needs is decided and built here, before any namespace exists.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use clap::CommandFactory as _;
use nix::unistd::Pid;
use rustix::rand::GetRandomFlags;

use crate::binaries::AGENT;
use crate::carried::SELF;
use crate::catalogue::{Catalogue, Entry};
use crate::cli::{BuildArgs, Cli, Command, RunArgs, Selection, Version};
use crate::exit::{Exit, Usage};
use crate::immutable::IMMUTABLE;
use crate::journal::Journal;
use crate::locate::Workspace;
use crate::mutants::{self, weave};
use crate::plan::{Mutants, Parts, Place, Plan, Sut, Task, WantedCluster};
use crate::sandbox::{self, Ended, ids, inside};
use crate::sealed::Sealed;
use crate::suite::{self, Checkout, Digests};
use crate::tier::started::{self, WORKLOAD};
use crate::tier::{Access, SessionError};
use crate::{
    alone, archive, board, carried, components, doctor, list, merge, pack, report, run, salvage, sut, tier,
    up, vocabulary,
};

/// Scenarios at a time, per core: most of a scenario's time is waiting. Fewer leave cores idle, and what waits for a core is late for its
/// deadlines.
const JOBS_PER_CORE: usize = 12;

/// Told after a clean-up: only the run itself knew what the nodes had before.
const NOT_CLEANED: &str = "if that run had --agent-image, look at its nodes: CNI configurations, plugins, labels and taints that it changed are as it left them";

/// Runs the command line.
pub fn start(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Run(args) => plan_run(*args),
        Command::Sweep(args) => {
            let report_dir = Workspace::find()?.lab.join("sweep");
            plan_run(args.run(report_dir)?)
        }
        Command::Up(args) => up::start(args),
        Command::Clean { kubeconfig, kubeconfig_exec } => {
            clean(&Access { kubeconfig, may_execute: kubeconfig_exec })
        }
        Command::Components(command) => components::start(&command),
        Command::Build(args) => build(&args),
        Command::Pack { to } => pack(&to),
        Command::Image { to, sut } => archive::write(&to, sut.as_deref()),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "cnilab", &mut std::io::stdout());
            Ok(Exit::Ok)
        }
        Command::Merge(args) => merge::merge(&args),
        Command::List(selection) => list(&selection),
        Command::Steps { word } => steps(&word),
        Command::Doctor { strict } => {
            let without_musl = if carried::is_carrying() { None } else { sut::without_musl() };
            sandbox::run(Task::Doctor { strict, without_musl }).map(Ended::exit)
        }
        Command::Inside => inside::main(perform),
        #[cfg(feature = "container")]
        Command::Contained { orders } => contained(&orders),
        Command::MapIds { pid } => {
            ids::map_ids(Pid::from_raw(i32::try_from(pid)?))?;
            Ok(Exit::Ok)
        }
    }
}

/// Does a task in the sandbox.
async fn perform(task: Task, place: Place) -> anyhow::Result<Exit> {
    let suite = if task.is_in_a_cluster() { None } else { carried::unpack_in(&place, &task)? };
    match task {
        Task::Run(mut plan) => {
            if let Some((suite, workload)) = &suite {
                (plan.root, plan.workload) = (suite.path().to_owned(), workload.clone());
            }
            // Before any child that would inherit it.
            let journal = plan.journal.map(Journal::inherited).transpose()?;
            let (mut sealed, drawn) = (Sealed::default(), plan.drawn());
            if place.is_sandbox() && plan.real.is_none() {
                sealed = Sealed::take(&mut plan.sut, &mut plan.workload, drawn)?;
                alone::ask_versions(&mut plan.sut).await;
            }
            let ended = Box::pin(run::run(*plan, place, sealed, journal)).await;
            ended.map_err(|error| match error.downcast_ref() {
                Some(SessionError::Kubeconfig { .. }) => error.context(Usage("--kubeconfig".to_owned())),
                _ => error,
            })
        }
        Task::Up(mut plan) => {
            if let Some((_, workload)) = &suite {
                plan.workload.clone_from(workload);
            }
            Box::pin(up::stay(*plan, place)).await
        }
        Task::Doctor { strict, without_musl } => doctor::run(&place, strict, without_musl.as_deref()).await,
    }
}

/// Selected scenarios. An invalid selection is a usage error.
fn select(read: anyhow::Result<Catalogue>) -> Result<Catalogue, Usage> {
    let catalogue = read.map_err(|error| Usage::of(&error))?;
    match catalogue.entries.is_empty() {
        true => Err(Usage("nothing is selected".to_owned())),
        false => Ok(catalogue),
    }
}

fn steps(word: &str) -> anyhow::Result<Exit> {
    let workspace = Workspace::find()?;
    let catalogue = Catalogue::read(&workspace.root, &Selection::default())?;
    let text = vocabulary::text(&vocabulary::topics(&workspace.root, &catalogue)?, word);
    if text.is_empty() {
        return Err(Usage(format!("no step has {word:?} in it")).into());
    }
    board::say(text.trim_end());
    Ok(Exit::Ok)
}

fn list(selection: &Selection) -> anyhow::Result<Exit> {
    let workspace = Workspace::find()?;
    let catalogue = select(Catalogue::read(&workspace.root, selection))?;
    // Where defects are planted is for those who have the source.
    let places = match &workspace.carried {
        Some(_) => None,
        None => Some(weave::weave(&workspace.root)?.places),
    };
    board::say(list::render(&catalogue, places.as_ref()).trim_end());
    Ok(Exit::Ok)
}

fn clean(access: &Access) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let removed =
        runtime.block_on(tier::clean(access, None, crate::shared::IN_A_CLUSTER)).context("--kubeconfig")?;
    removed.iter().for_each(|object| board::say(&format!("{object} is gone")));
    if !removed.is_empty() {
        board::complain(NOT_CLEANED);
    }
    Ok(Exit::Ok)
}

fn build(args: &BuildArgs) -> anyhow::Result<Exit> {
    if carried::is_carrying() {
        return Err(carried::needs_source("build").into());
    }
    let build = if args.mutants { sut::build_mutants } else { sut::build };
    board::say(&build(&Workspace::find()?)?.display().to_string());
    Ok(Exit::Ok)
}

fn pack(to: &Path) -> anyhow::Result<Exit> {
    pack::pack(&Workspace::find()?, to)?;
    let bytes = std::fs::metadata(to)?.len();
    board::say(&format!("{} ({} MiB): ./cnilab run --sut DIR", to.display(), bytes >> 20));
    Ok(Exit::Ok)
}

fn plan_run(mut args: RunArgs) -> anyhow::Result<Exit> {
    args.command = std::env::args().skip(1).collect();
    let workspace = Workspace::find()?;
    if args.on.real {
        args.image = Some(started::reference(WORKLOAD));
        args.agent_image = Some(started::reference(AGENT));
    }
    // Before its report may be replaced by that of this run.
    args.selection = args.selection.resolved().map_err(|error| Usage::of(&error))?;
    let wrong = |what: &str| Err(Usage(what.to_owned()).into());
    if args.on.version != Version::default() && !args.on.needs_components() {
        return wrong("--version: nothing of this run is Kubernetes' own: add --real, or --api kubernetes");
    }
    let is_guest = args.kubeconfig.is_some() && args.agent_image.is_none();
    if is_guest && args.sut.is_some() {
        return wrong(
            "--sut: the product is what the cluster of --kubeconfig has, unless --agent-image says otherwise",
        );
    }
    let builds = args.sut.is_none() && !is_guest;
    if workspace.carried.is_some() && builds {
        return Err(carried::needs_product("run").into());
    }
    let catalogue = select(Catalogue::of(&workspace.root, &args))?;
    args.user_namespace |= is_nobodys_root(&args, &catalogue);
    let mutants = defects(&args, &workspace, &catalogue)?;
    if is_guest {
        return against_a_cluster(args, &workspace, Sut::of_cluster(&[]));
    }
    with_product(args, workspace, mutants)
}

/// True for a product of files that is root on nothing but the sandbox: nothing that is selected needs the machine's own root.
fn is_nobodys_root(args: &RunArgs, catalogue: &Catalogue) -> bool {
    let elsewhere = args.kubeconfig.is_some() || args.container || args.on.needs_components();
    let needs_root = || catalogue.entries.iter().flat_map(Entry::needs).any(|need| need == IMMUTABLE);
    args.sut.is_some() && !elsewhere && !needs_root() && ids::can_give_all()
}

/// Defects that the run plays, if it is to play any, with their controls.
fn defects(args: &RunArgs, workspace: &Workspace, catalogue: &Catalogue) -> anyhow::Result<Option<Mutants>> {
    let Some(name) = &args.mutant else { return Ok(None) };
    let unnamed =
        || Usage(format!("--mutant {name}: no selected scenario names it (cnilab list names them all)"));
    let mutants = mutants::find(workspace, name, catalogue)?.ok_or_else(unnamed)?;
    if args.control.is_empty() {
        return Ok(Some(mutants));
    }
    let own =
        Digests::of(&workspace.root, Path::new(SELF), Path::new(""), suite::production(&workspace.root)?)?;
    let controls = mutants::controls(&args.control, &own).context(Usage("--control".to_owned()))?;
    Ok(Some(Mutants { controls, ..mutants }))
}

/// A run that has a product to deploy: in a sandbox, or in a cluster that it has to itself.
fn with_product(args: RunArgs, workspace: Workspace, mutants: Option<Mutants>) -> anyhow::Result<Exit> {
    let sut = under_test(&args, &workspace)?;
    if args.kubeconfig.is_some() {
        return against_a_cluster(args, &workspace, sut);
    }
    if args.container {
        return in_a_container(args, &workspace, &sut);
    }
    in_a_sandbox(args, workspace, sut, mutants, None)
}

#[cfg(feature = "container")]
fn in_a_container(args: RunArgs, workspace: &Workspace, sut: &Sut) -> anyhow::Result<Exit> {
    crate::container::start(args, workspace, sut)
}

#[cfg(not(feature = "container"))]
fn in_a_container(_: RunArgs, _: &Workspace, _: &Sut) -> anyhow::Result<Exit> {
    let lacking = "--container: this program was built without it: cargo run --package cnilab --features container -- run --container";
    Err(Usage(lacking.to_owned()).into())
}

/// A run in a container, which an outer process has decided on.
#[cfg(feature = "container")]
fn contained(orders: &Path) -> anyhow::Result<Exit> {
    use crate::container::Orders;
    let Orders { args, sut, parts } = crate::container::orders(orders)?;
    in_a_sandbox(args, Workspace::find()?, sut, None, parts)
}

/// A run in namespaces of its own, with the parts of a cluster if they have been brought to it.
fn in_a_sandbox(
    args: RunArgs,
    mut workspace: Workspace,
    sut: Sut,
    mutants: Option<Mutants>,
    brought: Option<Parts>,
) -> anyhow::Result<Exit> {
    let workload = match workspace.carried {
        Some(_) => PathBuf::new(),
        None => sut::build_workload(&workspace)?,
    };
    sandbox::require_visible([&sut.dir, &workload])?;
    let (report_dir, _held) = report::of_run(&args, &workspace)?;
    let directory = report_dir.join(started::CLUSTER);
    let of = |asked| match brought {
        Some(parts) => started::settle(asked, parts, &directory),
        None => started::plan(&workspace, asked, &sut, &workload, &directory),
    };
    let real = match WantedCluster::of(&args.on).map(of).transpose() {
        Ok(real) => real,
        Err(error) => {
            board::complain(format!("{error:#}"));
            return Ok(Exit::Partial);
        }
    };
    let checkout = Checkout::of(&workspace.root);
    // The sandbox unpacks it once more, where nothing of it can stay.
    drop(workspace.carried.take());
    let built = args.sut.is_none() && args.mutant.is_none();
    let journal = Journal::create().context("no memory file for verdicts")?;
    let plan = Plan {
        jobs: jobs(&args),
        seed: seed(&args)?,
        args,
        root: workspace.root,
        report_dir,
        without_musl: built.then(sut::without_musl).flatten(),
        sut,
        mutants,
        real,
        workload,
        checkout,
        journal: Some(journal.number()),
    };
    let begun = Instant::now();
    let ended = sandbox::run(Task::Run(Box::new(plan.clone())));
    started::ended();
    reported(&plan, &journal, begun, ended?)
}

/// A run against somebody's cluster. Nothing of it happens on this machine but that the product renders its manifests.
fn against_a_cluster(args: RunArgs, workspace: &Workspace, sut: Sut) -> anyhow::Result<Exit> {
    let (report_dir, _held) = report::of_run(&args, workspace)?;
    let journal = Journal::create().context("no memory file for verdicts")?;
    let plan = Plan {
        jobs: jobs(&args),
        seed: seed(&args)?,
        report_dir,
        args,
        checkout: Checkout::of(&workspace.root),
        journal: Some(journal.number()),
        root: workspace.root.clone(),
        without_musl: None,
        sut,
        mutants: None,
        real: None,
        workload: PathBuf::new(),
    };
    let begun = Instant::now();
    let task = Task::Run(Box::new(plan.clone()));
    let ended = sandbox::beside(task, "the scenarios run in a cluster");
    reported(&plan, &journal, begun, ended?)
}

/// Exit of a run, whose report is written here if its process was ended.
fn reported(plan: &Plan, journal: &Journal, begun: Instant, ended: Ended) -> anyhow::Result<Exit> {
    match ended {
        Ended::Early(early) => salvage::report(plan, journal, early, begun.elapsed().as_secs_f64()),
        ended => Ok(ended.exit()),
    }
}

/// System under test: given, or built with or without defects.
fn under_test(args: &RunArgs, workspace: &Workspace) -> anyhow::Result<Sut> {
    if let Some(path) = &args.sut {
        return sut::read(path, workspace).context(Usage("--sut".to_owned()));
    }
    if args.mutant.is_some() {
        return sut::inspect_all(&sut::build_mutants(workspace)?);
    }
    sut::build_static(workspace)
}

/// Scenarios at a time: who has a cluster to themselves has it for one.
fn jobs(args: &RunArgs) -> usize {
    match args.agent_image {
        Some(_) => 1,
        // Each scenario has a control plane, and all are at the same address.
        None if args.on.needs_components() => 1,
        None => args.jobs.map_or_else(default_jobs, usize::from),
    }
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * JOBS_PER_CORE
}

/// The seed of a run: that of the command line, or one of the kernel's.
fn seed(args: &RunArgs) -> anyhow::Result<u64> {
    if let Some(seed) = args.seed {
        return Ok(seed);
    }
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()).context("no random seed")?;
    Ok(u64::from_ne_bytes(bytes))
}
