// SPDX-License-Identifier: Apache-2.0
//! The controller as a process: `install-cni taint`. Every replica follows nodes and pods; the one that holds the lease acts. At the end it
//! stops acting, waits for what is on its way, and gives the lease back.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::controller::TaintController;
use super::decide::TaintState;
use super::elect::Elector;
use super::flags::TaintFlags;
use super::follow::Followers;
use super::options::{NamespacedName, OptionsError, RunKind, TaintOptions};
use super::rules::RuleError;
use crate::USAGE;
use crate::api::{ApiError, Client, REQUEST_LIMIT, SetupError};
use crate::events;
use crate::http::{self, HttpState};
use crate::log;
use crate::metrics::Metrics;
use crate::readiness::{Part, Readiness};
use crate::reload::Live;
use crate::settings::layers::ProcessEnvironment;
use crate::settings::{Loaded, Settings};
use crate::signals::Signals;

const FAILED: u8 = 1;

/// Deadline of the shutdown: the kubelet waits 30 s.
const REST_LIMIT: Duration = Duration::from_secs(10);
/// Deadline of a single run: a list may take a minute, and there are two.
const ONCE_LIMIT: Duration = Duration::from_secs(300);

/// Failure of the controller.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("{0}")]
    Options(#[from] OptionsError),
    /// Malformed `ConfigMap`.
    #[error("cannot follow ConfigMap {}/{}: {error}", place.namespace, place.name)]
    Rules { place: NamespacedName, error: Box<RuleError> },
    /// It does not exist.
    #[error("there is no ConfigMap {}/{}, which says what nodes need", .0.namespace, .0.name)]
    NoMap(NamespacedName),
    #[error("cannot read {what}: {error}")]
    Follow { what: &'static str, error: ApiError },
    /// No address of the API server.
    #[error("{0}")]
    Setup(#[from] SetupError),
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Some nodes could not be reconciled.
    #[error("cannot reconcile {}: see the log", .0.join(", "))]
    Nodes(Vec<String>),
    /// Deadline exceeded.
    #[error("not every node was looked at within {ONCE_LIMIT:?}")]
    Late,
}

impl RunError {
    fn code(&self) -> u8 {
        match self {
            Self::Options(_) | Self::Rules { .. } => USAGE,
            _ => FAILED,
        }
    }
}

#[must_use]
pub fn main(flags: &TaintFlags, loaded: Loaded) -> ExitCode {
    let done =
        TaintOptions::new(flags, &ProcessEnvironment, &loaded.settings.own.namespace).map_err(RunError::from);
    let done = done.and_then(|options| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(controller(options, loaded))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "install-cni taint: {error}");
            ExitCode::from(error.code())
        }
    }
}

async fn controller(options: TaintOptions, loaded: Loaded) -> Result<(), RunError> {
    let settings = loaded.settings.clone();
    let identity = identity(&settings, &loaded.found.hostname);
    log::begin(settings.log.levels.clone(), settings.log.format)?;
    tracing::info!(target: "taint", mode = options.mode.name(), taint = options.taint, identity, "minding taints of nodes");
    let client = Client::new(&settings.kubeconfig, &settings.places.token_file())?;
    let (readiness, metrics) = (Readiness::of(&Part::CONTROLLER), Metrics::of_controller());
    let stop = CancellationToken::new();
    let (recorder, writer) = events::channel(metrics.clone(), &identity);
    let writing = writer.begin(client.clone().into());
    let state = TaintState::new(options.mode.policy(), &options.taint);
    let limit = REQUEST_LIMIT.min(options.timing.duration.saturating_sub(options.timing.renew));
    let controller =
        TaintController::new(state, &options.taint, client.clone(), limit, (metrics.clone(), recorder));
    let (failed, failures) = mpsc::channel(1);
    let followers = Followers {
        controller: controller.clone(),
        client: client.clone(),
        readiness: readiness.clone(),
        failed,
        stop: stop.clone(),
    };
    followers.begin(&options.needs);
    tokio::spawn(controller.clone().keep_time(stop.clone()));
    let done = match options.course {
        RunKind::Once => once(&controller, failures).await,
        RunKind::Daemon => {
            serve(loaded, (metrics, readiness), &stop);
            daemon(&controller, Elector::new(client, options.lease, &identity, options.timing)).await
        }
    };
    stop.cancel();
    drop(controller);
    writing.finish().await;
    done
}

/// Another one each time: a container that begins anew under its pod's name is not who held the lease before.
fn identity(settings: &Settings, hostname: &str) -> String {
    let name = if settings.own.name.is_empty() { hostname } else { &settings.own.name };
    format!("{name}_{:016x}", RandomState::new().build_hasher().finish())
}

fn serve(loaded: Loaded, (metrics, readiness): (Metrics, Readiness), stop: &CancellationToken) {
    let monitoring = loaded.settings.monitoring_port;
    let state = HttpState { metrics, readiness, settings: Live::new(loaded).report() };
    tokio::spawn(http::both(state, monitoring, stop.clone()));
}

/// Leads whenever it holds the lease, until cancelled.
async fn daemon(
    controller: &Arc<TaintController>,
    (elector, leads): (Elector, watch::Receiver<Option<Instant>>),
) -> Result<(), RunError> {
    let mut signals = Signals::listen()?;
    let resign = CancellationToken::new();
    let election = tokio::spawn(elector.run(resign.clone()));
    tokio::select! {
        () = lead(controller, leads) => {}
        () = signals.recv() => {}
    }
    tracing::info!(target: "taint", "told to stop");
    controller.lead(None);
    let _ = timeout(REST_LIMIT, controller.rest()).await;
    resign.cancel();
    let _ = election.await;
    Ok(())
}

async fn lead(controller: &Arc<TaintController>, mut leads: watch::Receiver<Option<Instant>>) {
    loop {
        let until = leads.borrow_and_update().filter(|until| Instant::now() < *until);
        controller.lead(until);
        let changed = match until {
            Some(until) => timeout_at(until, leads.changed()).await,
            None => Ok(leads.changed().await),
        };
        if let Ok(Err(_)) = changed {
            return;
        }
    }
}

/// Puts every node right, and ends. Nobody else is asked: what two write at once is tested by each patch.
async fn once(
    controller: &Arc<TaintController>,
    mut failures: mpsc::Receiver<RunError>,
) -> Result<(), RunError> {
    controller.lead(Some(Instant::now() + ONCE_LIMIT));
    let through = async {
        loop {
            let news = controller.news.notified();
            let (knows_all, through, failing) = {
                let state = controller.state();
                let failing = state.failing().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
                (state.knows_all(), state.is_through(), failing)
            };
            if knows_all && through {
                return if failing.is_empty() { Ok(()) } else { Err(RunError::Nodes(failing)) };
            }
            tokio::select! {
                () = news => {}
                Some(error) = failures.recv() => return Err(error),
            }
        }
    };
    timeout(ONCE_LIMIT, through).await.unwrap_or(Err(RunError::Late))
}
