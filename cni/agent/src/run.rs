// SPDX-License-Identifier: Apache-2.0
//! Starts the parts of the agent in order, and stops them: settings, logs, health and metrics, the plugin's sockets, then the installation.
//! Nothing that needs the API server keeps the installation from being done.

mod backend;
mod cluster;
mod purge;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::cli::{Cli, Command};
use crate::files;
use crate::http::{self, HttpState};
use crate::install::claim::{Claim, InstallerRole};
use crate::install::directory;
use crate::install::task::{self, InstallContext};
use crate::install::uninstall::{BinaryRemoval, uninstall};
use crate::leave::Decision;
use crate::log::{self, Log};
use crate::manifests;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::reload::Live;
use crate::repair;
use crate::runtime::Runtime;
use crate::runtime::follow::Followed;
use crate::serve::Sockets;
use crate::serve::lookup::Lookup;
use crate::settings::layers::ProcessEnvironment;
use crate::settings::{self, Loaded, Network, Settings};
use crate::signals::Signals;
use crate::taint::OwnTaint;
use crate::{probe, status, taint};

#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    if let Some(Command::InPod) = cli.command {
        return repair::inside::main();
    }
    if let Some(Command::Version) = cli.command {
        let done = writeln!(io::stdout(), "install-cni {}", env!("CARGO_PKG_VERSION"));
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(Command::Manifests(request)) = &cli.command {
        let done = manifests::run(request, &cli.flags.0, &mut io::stdout(), &mut io::stderr());
        return done.unwrap_or(ExitCode::FAILURE);
    }
    if let Some(Command::Probe { what }) = cli.command {
        return probe::main(what);
    }
    if let Some(Command::Idle) = cli.command {
        return idle().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let binary = if cli.keep_used_binary { BinaryRemoval::WhileUnused } else { BinaryRemoval::Always };
    let (purging, bin_dirs) = (cli.purge, cli.cni_bin_dir);
    let loaded = settings::load(cli.flags.0, &ProcessEnvironment, directory::is_gated);
    if let Some(Command::Status { output }) = cli.command {
        // A closed pipe is no error.
        return status::run(&loaded, output, &mut io::stdout()).unwrap_or(ExitCode::FAILURE);
    }
    if let Some(Command::Taint(flags)) = cli.command {
        return taint::main(&flags, loaded);
    }
    if purging {
        return purge::run(&loaded, bin_dirs, binary);
    }
    match run(loaded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "install-cni: {error}");
            ExitCode::FAILURE
        }
    }
}

fn idle() -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        Signals::listen()?.recv().await;
        Ok(())
    })
}

/// One thread: what blocks has threads of its own, which end when they are idle.
fn run(loaded: Loaded) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(agent(loaded))
}

async fn agent(loaded: Loaded) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let log = log::begin(loaded.settings.log.levels.clone(), loaded.settings.log.format)?;
    tell_doubts(&loaded);
    let live = Live::new(loaded);
    let receiver = live.settings();
    let settings = receiver.borrow().clone();
    let (readiness, metrics) = (Readiness::default(), Metrics::default());
    let runtime = Runtime::new(readiness.clone());
    let stop = CancellationToken::new();
    let mut servers = JoinSet::new();
    let state = HttpState { metrics: metrics.clone(), readiness: readiness.clone(), settings: live.report() };
    servers.spawn(http::of_agent(state, settings.monitoring_port, stop.clone()));
    make_run_dir(&settings);
    let client = cluster::client(&settings);
    let pods = cluster::pods(&settings, client.as_ref(), &metrics, &mut servers, &stop);
    let sockets = Sockets {
        run_dir: settings.places.run_dir.clone(),
        lookup: Lookup::reporting(pods.clone(), client.clone(), metrics.clone(), runtime.clone()),
        log: log.clone(),
        readiness: readiness.clone(),
    };
    servers.spawn(sockets.run(stop.clone()));
    let (leaving, events, writing) =
        cluster::follow(live, client.clone(), pods.clone(), metrics.clone(), &mut servers, &stop);
    let reporters = (&readiness, &runtime, &metrics, &events);
    let (installs, is_installer) = watch::channel(true);
    let followed = Followed {
        client: client.clone(),
        pods: pods.clone(),
        settings: receiver.clone(),
        installs: is_installer.clone(),
    };
    servers.spawn(runtime.clone().run(followed, stop.clone()));
    let own_taint =
        cluster::own_taint(&receiver, client.as_ref(), reporters, is_installer, &mut servers, &stop);
    servers.spawn(follow_levels(log, receiver.clone()));
    let context =
        InstallContext { settings: receiver.clone(), readiness, metrics, events, runtime, installs };
    let mut installation = tokio::spawn(task::run(context, stop.clone()));
    let recording = tokio::spawn(backend::find_out(settings.clone()));
    tokio::select! {
        () = signals.recv() => {}
        Ok(Err(orphaned)) = &mut installation => {
            tracing::error!(target: "install", "{orphaned}");
            return Err(io::Error::other(orphaned));
        }
    }
    tracing::info!(target: "cni-agent", "told to stop");
    // Asked before anything is stopped: until then pods of the node are served.
    let settings = receiver.borrow().clone();
    let decision = leaving.conclude(settings.always_uninstall).await;
    stop.cancel();
    // Held until the end: what is removed here nobody is to put back meanwhile.
    let mut claim = installation.await.ok().and_then(Result::ok);
    if matches!(decision, Decision::Uninstall(_)) && !is_left(claim.as_mut()) {
        leave_node(settings, claim.as_mut(), own_taint, recording).await;
    }
    servers.shutdown().await;
    writing.finish().await;
    Ok(())
}

/// Puts the taint back and uninstalls.
async fn leave_node(
    settings: Arc<Settings>,
    claim: Option<&mut Claim>,
    own_taint: Option<OwnTaint>,
    recording: JoinHandle<()>,
) {
    if let Some(taint) = own_taint {
        // First, so that no pod comes to a node that is about to lose the plugin.
        taint.restore().await;
    }
    // Its record of the back end would outlive the uninstallation.
    let _ = recording.await;
    // Seconds have gone by for the taint and the record: an agent of a DaemonSet that was made anew may be here by now.
    if !is_left(claim) {
        take_back(settings).await;
    }
}

/// True if a later agent of this node is the installer.
fn is_left(claim: Option<&mut Claim>) -> bool {
    let left = claim.is_some_and(|claim| claim.stand() != InstallerRole::Installs);
    if left {
        tracing::info!(target: "install", "another agent of this node installs: what is installed is left to it");
    }
    left
}

/// Logs mistakes and deprecations of the settings.
fn tell_doubts(loaded: &Loaded) {
    for mistake in &loaded.mistakes {
        tracing::error!(target: "cni-agent", %mistake, "a setting cannot be used");
    }
    let network = Network::of_this_process(&loaded.settings.places.proc_dir);
    if let Some(name) = loaded.settings.own.unknown_name(network) {
        tracing::warn!(target: "cni-agent", name, "the plugin does not know the agent's pod by this name: it waits for an agent after a reboot, as every pod; its DaemonSet should be called istio-cni-node");
    }
}

/// Applies changed log levels.
async fn follow_levels(log: Log, mut settings: watch::Receiver<Arc<Settings>>) {
    while settings.changed().await.is_ok() {
        let levels = settings.borrow_and_update().log.levels.clone();
        log.set_levels(levels);
    }
}

/// Kubelet makes it for the mount; where there is none, we do. Who needs it and cannot have it says so.
fn make_run_dir(settings: &Settings) {
    if let Err(error) = files::make_directory(&settings.places.run_dir) {
        tracing::error!(target: "cni-agent", "{error}");
    }
}

/// Uninstalls.
async fn take_back(settings: Arc<Settings>) {
    let Ok(summary) = spawn_blocking(move || uninstall(&settings, BinaryRemoval::WhileUnused)).await else {
        return;
    };
    for done in &summary.done {
        tracing::info!(target: "install", what = done, "removed");
    }
    for kept in &summary.kept {
        tracing::warn!(target: "install", what = kept, "kept");
    }
    for error in &summary.errors {
        tracing::error!(target: "install", "{error}");
    }
}
