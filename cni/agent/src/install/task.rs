// SPDX-License-Identifier: Apache-2.0
//! When to look: at the start, when something changed, when settings changed, after an error, and from time to time in any case.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::mutant;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::fight::{self, Fight};
use super::pass::{ConflistError, Installer, Report, Touch};
use super::{KUBECONFIG, directory, kubeconfig};
use crate::conflist::plan::Step;
use crate::events::{About, Reason, Recorder};
use crate::metrics::{InstallResult, Metrics};
use crate::readiness::{Part, Readiness};
use crate::settings::Settings;
use crate::watch::{Place, Watcher};

/// Events can get lost (network file systems, an overflow): so much later it is looked all the same.
const NET: Duration = Duration::from_secs(10);
/// After an error, at first …
const SOON: Duration = Duration::from_millis(250);
/// … and at last: events tell most of what ends one.
const LATE: Duration = NET;

/// What the installation talks to.
#[derive(Debug, Clone)]
pub struct Context {
    /// The settings, now and later.
    pub settings: watch::Receiver<Arc<Settings>>,
    /// Where it says what is right.
    pub readiness: Readiness,
    /// What it counts.
    pub metrics: Metrics,
    /// Whom operators hear.
    pub events: Recorder,
}

impl Context {
    fn tell_fight(&self, file: &str) {
        let why = fight::reason(file);
        tracing::warn!(target: "install", file, "{why}");
        self.metrics.fight();
        let node = self.settings.borrow().own.node.clone();
        if !node.is_empty() {
            self.events.record(About::Node(node), Reason::CniConfigFight, why);
        }
    }
}

/// Why it ends although nobody told it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "keep the plugin installed: {} was deleted on the node, and what took its place cannot be seen from here until the container is started anew", .0.display()
)]
pub struct Orphaned(pub PathBuf);

/// Installs and heals until `stop`.
///
/// # Errors
/// There is nothing more that this process could do.
pub async fn run(mut context: Context, stop: CancellationToken) -> Result<(), Orphaned> {
    let mut watcher = Watcher::new()
        .inspect_err(|error| tracing::error!(target: "install", %error, "failed to watch directories; looking every 10 s"))
        .ok();
    let mut keeper = Keeper::default();
    loop {
        let settings = context.settings.borrow_and_update().clone();
        let places = places(&settings);
        if let Some(watcher) = &mut watcher {
            watcher.arm(&places);
        }
        let orphaned = places.into_iter().find(|place| directory::is_orphaned(&place.directory));
        if let Some(place) = orphaned.filter(|_| !mutant!("orphan-stays")) {
            return Err(Orphaned(place.directory));
        }
        let begun = Instant::now();
        let touch = keeper.touch(begun);
        let mut installer = std::mem::take(&mut keeper.installer);
        let looked = spawn_blocking(move || {
            let report = installer.pass(&settings, &touch);
            (installer, report, kubeconfig::token_expires(&settings))
        });
        let Ok((installer, report, expires)) = looked.await else { continue };
        context.metrics.token_expires(expires);
        keeper.installer = installer;
        let wait = keeper.judge(&report, begun, &context);
        if let (Err(ConflistError::File(error)), true) = (&report.conflist, mutant!("error-ends")) {
            return Err(Orphaned(error.path.clone()));
        }
        let changed = async {
            match &mut watcher {
                Some(watcher) => watcher.changed().await,
                None => std::future::pending().await,
            }
        };
        let told = async {
            if context.settings.changed().await.is_err() {
                // Nobody is left to change them.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = told => {}
            _ = timeout(wait, changed) => {}
        }
    }
}

/// What to watch.
fn places(settings: &Settings) -> Vec<Place> {
    let place = |directory: &std::path::Path, only: Option<&str>| Place {
        directory: directory.to_owned(),
        only: only.map(str::to_owned),
    };
    let given = &settings.places;
    let mut places: Vec<Place> =
        given.target_dirs.iter().map(|directory| place(directory, Some(super::BINARY))).collect();
    places.push(place(&given.net_dir, None));
    places.push(place(&given.account_dir, None));
    // The plugin's log is in there, too.
    places.push(place(&given.run_dir, Some(KUBECONFIG)));
    places.extend(settings.kubeconfig.ca_file.parent().map(|directory| place(directory, None)));
    places
}

/// What is remembered from look to look.
#[derive(Default)]
struct Keeper {
    installer: Installer,
    fight: Fight,
    /// The file with our entry, while it was there.
    right: Option<String>,
    /// The last failure that was told, and how long it was waited for.
    told: Option<String>,
    failures: u32,
}

impl Keeper {
    fn touch(&self, now: Instant) -> Touch {
        match self.fight.hold(now) {
            Some(_) => Touch::Later(fight::reason(self.right.as_deref().unwrap_or("the configuration"))),
            None => Touch::Now,
        }
    }

    /// Tells what a look found. How long until the next.
    fn judge(&mut self, report: &Report, begun: Instant, context: &Context) -> Duration {
        let readiness = &context.readiness;
        match &report.binaries {
            Ok(_) => readiness.right(Part::Binaries),
            Err(error) => readiness.wrong(Part::Binaries, format!("failed to {error}")),
        }
        match &report.kubeconfig {
            Ok(_) => readiness.right(Part::Kubeconfig),
            Err(error) => readiness.wrong(Part::Kubeconfig, format!("failed to {error}")),
        }
        match &report.conflist {
            Ok(_) => readiness.right(Part::Conflist),
            Err(_) if self.right.is_some() && mutant!("readiness-believed") => {}
            Err(error) => readiness.wrong(Part::Conflist, error.to_string()),
        }
        self.count(report, begun, context);
        self.next(report, begun)
    }

    fn count(&mut self, report: &Report, begun: Instant, context: &Context) {
        let metrics = &context.metrics;
        let wrote = !report.steps.is_empty();
        if let (Ok(file), Some(before), true) = (&report.conflist, &self.right, wrote) {
            metrics.healed(begun.elapsed());
            if before == file && self.fight.healed(begun).is_some() && !mutant!("fight-untold") {
                context.tell_fight(file);
            }
        }
        if let Ok(file) = &report.conflist {
            self.right = Some(file.clone());
        } else if report.steps.iter().any(|step| matches!(step, Step::Remove { .. })) {
            self.right = None;
        }
        let (result, failure) = outcome(report);
        let changed = wrote || matches!(report.binaries, Ok(true)) || matches!(report.kubeconfig, Ok(true));
        match failure {
            Some(why) if self.told.as_ref() != Some(&why) => {
                tracing::warn!(target: "install", reason = why, "not installed");
                metrics.installed(result);
                self.told = Some(why);
            }
            Some(_) => {}
            None => {
                if changed || self.told.take().is_some() {
                    metrics.installed(result);
                    tracing::info!(target: "install", file = self.right.as_deref().unwrap_or_default(), "installed");
                }
            }
        }
    }

    /// After a failure sooner and then later; and when a fight's wait is over.
    fn next(&mut self, report: &Report, begun: Instant) -> Duration {
        let broken = report.binaries.is_err()
            || report.kubeconfig.is_err()
            || matches!(report.conflist, Err(ConflistError::File(_) | ConflistError::Restless));
        self.failures = if broken { self.failures + 1 } else { 0 };
        let wait = match self.failures {
            0 => NET,
            many => SOON.saturating_mul(1 << many.min(10)).min(LATE),
        };
        self.fight.hold(begun).map_or(wait, |hold| wait.min(hold))
    }
}

/// The metric's result, and what failed in words.
fn outcome(report: &Report) -> (InstallResult, Option<String>) {
    if let Err(error) = &report.binaries {
        return (InstallResult::CopyBinariesFailure, Some(format!("failed to {error}")));
    }
    if let Err(error) = &report.kubeconfig {
        return (InstallResult::CreateKubeconfigFailure, Some(format!("failed to {error}")));
    }
    match &report.conflist {
        Err(error) => (InstallResult::CreateCniConfigFailure, Some(error.to_string())),
        Ok(_) => (InstallResult::Success, None),
    }
}
