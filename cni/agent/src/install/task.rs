// SPDX-License-Identifier: Apache-2.0
//! When to look: at the start, when something changed, when settings changed, after an error, and from time to time in any case.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::claim::{CLAIM, Claim, InstallerRole, Who};
use super::judge::{self, Judge, Look};
use super::mounts::Mounts;
use super::pass::{ConflistError, Installer, PassReport};
use super::{KUBECONFIG, kubeconfig};
use crate::conflist::plan::NotRight;
use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::readiness::Readiness;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::watch::{Names, WatchedDirectory, Watcher};

/// Dependencies of the installation.
#[derive(Debug, Clone)]
pub struct InstallContext {
    pub settings: watch::Receiver<Arc<Settings>>,
    pub readiness: Readiness,
    /// Metrics.
    pub metrics: Metrics,
    /// Events for operators.
    pub events: Recorder,
    /// Told of each change of our entry, before anybody else is.
    pub runtime: Runtime,
    /// Told whether this agent installs, or leaves the node to another.
    pub installs: watch::Sender<bool>,
}

/// End of the task without cancellation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to keep the plugin installed: {} was deleted or moved on the node, or a link on its path leads elsewhere now, and what took its place cannot be seen from here until the container is started anew", .0.display()
)]
pub struct Orphaned(pub PathBuf);

/// Installs and heals until `stop`, unless another agent does. The claim to the node, which may be another's by then.
///
/// # Errors
/// There is nothing more that this process could do.
pub async fn run(mut context: InstallContext, stop: CancellationToken) -> Result<Claim, Orphaned> {
    let (mut watcher, mut is_logged) = (None, false);
    let (mut installer, mut judge) = (Installer::default(), Judge::default());
    let (mut mounts, mut changed_at) = (Mounts::default(), None);
    let mut turn = Turn::new(&context.settings.borrow());
    loop {
        let settings = context.settings.borrow_and_update().clone();
        let places = places(&settings);
        if watcher.is_none() {
            watcher = Watcher::new().inspect_err(|error| {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::error!(target: "install", %error, "failed to watch directories; looking every 10 s");
                }
            }).ok();
        }
        if let Some(watcher) = &mut watcher {
            watcher.arm(&places);
        }
        let orphaned = mounts.orphaned(places.into_iter().map(|place| place.directory));
        if let Some(directory) = orphaned.or_else(|| mounts.turned(&settings.places)) {
            return Err(Orphaned(directory));
        }
        let (mut wait, since) = (judge::NET, changed_at.take());
        let is_ours = turn.is_ours();
        context.installs.send_if_modified(|installs| std::mem::replace(installs, is_ours) != is_ours);
        if is_ours {
            let begun = Instant::now();
            let permits = judge.permits(begun);
            let (mut pass, by) = (std::mem::take(&mut installer), settings.clone());
            let looked = spawn_blocking(move || {
                let report = pass.pass(&by, &permits);
                (pass, report, kubeconfig::token_expires(&by))
            });
            let Ok((pass, report, expires)) = looked.await else { continue };
            installer = pass;
            context.metrics.token_expires(expires);
            let report = accepted(report, &context.runtime);
            let look = Look { settings, report, begun, since: since.unwrap_or(begun) };
            wait = judge.judge(&look, &context);
        }
        let changed = async {
            match &mut watcher {
                Some(watcher) => watcher.changed().await,
                None => std::future::pending().await,
            }
        };
        let resettled = async {
            if context.settings.changed().await.is_err() {
                // Nobody is left to change them.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(turn.claim),
            () = resettled => {}
            first = timeout(wait, changed) => changed_at = first.ok(),
        }
    }
}

/// A report on our entry in a file that is not the first: right, where the runtime is known to go by that file's network.
fn accepted(mut report: PassReport, runtime: &Runtime) -> PassReport {
    runtime.networks(&report.networks);
    if let Err(ConflistError::NotRight(NotRight::Preempted { ours, .. }, _)) = &report.conflist
        && runtime.goes_by(ours)
    {
        report.conflist = Ok(ours.clone());
    }
    report
}

/// Installer or standby, and the last log line on it.
struct Turn {
    claim: Claim,
    said: InstallerRole,
}

impl Turn {
    fn new(settings: &Settings) -> Self {
        let claim = Claim::new(&settings.places.run_dir, &settings.own.name);
        Self { claim, said: InstallerRole::Installs }
    }

    fn is_ours(&mut self) -> bool {
        let standing = self.claim.stand();
        if standing != self.said {
            match &standing {
                InstallerRole::Yields(Who { version, pod }) => {
                    tracing::info!(target: "install", pod, version, "another agent of this node started later: it installs from now on, and this one leaves the node alone");
                }
                InstallerRole::Installs => {
                    tracing::info!(target: "install", "the other agent ended: this one installs again")
                }
            }
            self.said = standing;
        }
        self.said == InstallerRole::Installs
    }
}

/// Directories to watch.
fn places(settings: &Settings) -> Vec<WatchedDirectory> {
    let place = |directory: &Path, names: Names| WatchedDirectory { directory: directory.to_owned(), names };
    let one = |name: &str| Names::One(name.to_owned());
    let given = &settings.places;
    // A list is lowered as soon as a plugin can no longer do its version.
    let plugins = || if settings.chain.raise_version { Names::All } else { one(super::BINARY) };
    let mut places: Vec<WatchedDirectory> =
        given.target_dirs.iter().map(|directory| place(directory, plugins())).collect();
    places.push(place(&given.net_dir, Names::Configurations));
    places.extend(given.multus_dir.iter().map(|directory| place(directory, Names::Configurations)));
    places.push(place(&given.account_dir, Names::All));
    // The plugin's log is in there, too.
    places.extend([KUBECONFIG, CLAIM].map(|name| place(&given.run_dir, one(name))));
    places.extend(settings.kubeconfig.ca_file.parent().map(|directory| place(directory, Names::All)));
    places
}
