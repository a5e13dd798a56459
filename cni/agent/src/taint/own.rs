// SPDX-License-Identifier: Apache-2.0
//! The variant without anything central: the agent minds the taint of its own node. It takes the taint away when everything is installed
//! and right, and puts it back when that has not been so for a while, or when it uninstalls. An agent that stops and leaves what is
//! installed leaves the taint as it is, too: pods of the node go on getting their rules.
//!
//! One mistake must not close a cluster. A setting reaches all agents at once, so what is lost by a change of settings brings no taint back: the
//! agents are not ready, and say why. What goes by the pod's template (as `CNI_CONF_NAME`) reaches them by a rollout, which ends at the first
//! nodes whose agents do not get ready: `maxUnavailable` is the bound there. A loss that no setting explains is this node's own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::actions::{Ended, Retries, TaintChange};
use super::decide::{PatchOutcome, wait};
use super::model::Node;
use super::newest::{Report, Response};
use super::taints::{has, patch};
use crate::api::{ApiError, Change, Client, Following, One, REQUEST_LIMIT, Resource};
use crate::events::Recorder;
use crate::metrics::{Deed, Metrics, Watched};
use crate::readiness::Readiness;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::time::pause;

/// Grace period of a missing part before the taint comes back: a blip of seconds is no reason to repel pods.
const GRACE: Duration = Duration::from_secs(30);
/// Deadline of restoring it at the end, with all retries.
const RESTORE_LIMIT: Duration = Duration::from_secs(4);
/// Deadline of a request then: one that hangs leaves time for others.
const RESTORE_REQUEST_LIMIT: Duration = Duration::from_secs(1);

/// Next action on the agent's own node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Do(Deed),
    /// Waits for a change, or until then.
    Wait(Option<Duration>),
}

/// Observed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    tainted: bool,
    /// Everything is installed.
    right: bool,
    /// Generation of the settings.
    settings: u64,
}

/// Schedule of the taint. Pure: the time is an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TaintSchedule {
    wrong_since: Option<Duration>,
    settings: Option<u64>,
    /// Last change of the settings.
    changed: Option<Duration>,
    /// The installation was lost by that change.
    by_setting: bool,
    failures: u32,
    due: Option<Duration>,
}

impl TaintSchedule {
    fn decide(&mut self, Seen { tainted, right, settings }: Seen, now: Duration) -> Next {
        if self.settings.replace(settings).is_some_and(|before| before != settings) {
            self.changed = Some(now);
        }
        if right {
            (self.wrong_since, self.by_setting) = (None, false);
        } else if self.wrong_since.is_none() {
            self.wrong_since = Some(now);
            // A setting takes effect with the next passes of the installation.
            self.by_setting = self.changed.is_some_and(|at| now < at + GRACE);
        }
        if self.by_setting {
            return self.rest(None);
        }
        let lost = self.wrong_since.map(|since| since + GRACE);
        let deed = match (tainted, lost) {
            (true, None) => Deed::Remove,
            (false, Some(at)) if at <= now => Deed::Add,
            (false, Some(at)) => return self.rest(Some(at)),
            _ => return self.rest(None),
        };
        match self.due {
            Some(due) if due > now => Next::Wait(Some(due)),
            _ => Next::Do(deed),
        }
    }

    fn rest(&mut self, until: Option<Duration>) -> Next {
        (self.failures, self.due) = (0, None);
        Next::Wait(until)
    }

    fn ended(&mut self, outcome: &PatchOutcome, now: Duration) {
        // That a node is gone is for its watch to tell; until it does, the next attempt waits.
        let failed = !matches!(outcome, PatchOutcome::Done(_));
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        self.due = wait(self.failures).filter(|_| failed).map(|wait| now.saturating_add(wait));
    }
}

/// Controller of the agent's own node's taint.
#[derive(Debug, Clone)]
pub struct OwnTaint {
    pub key: String,
    pub node: String,
    pub client: Client,
    /// Readiness.
    pub readiness: Readiness,
    /// Told which one the node names, before anything is decided on that node.
    pub runtime: Runtime,
    /// Desired settings.
    pub settings: watch::Receiver<Arc<Settings>>,
    pub metrics: Metrics,
    pub recorder: Recorder,
    /// This agent installs; otherwise another one of the node does, whose the taint is.
    pub installs: watch::Receiver<bool>,
}

impl OwnTaint {
    pub async fn run(self, stop: CancellationToken) {
        let (sender, node) = watch::channel(Report::default());
        let following = Following::new(self.client.clone(), Resource::node(&self.node));
        let (metrics, runtime) = (self.metrics.clone(), self.runtime.clone());
        let sink = move |change: Change<Node>| match change.one() {
            One::Now(node) => {
                if let Some(node) = &node {
                    runtime.is(node.runtime);
                }
                sender.send_modify(|report| report.report(node));
            }
            One::Alive => {}
            One::Lost(lost) => metrics.watch_restarted(Watched::Nodes, lost.reason),
        };
        tokio::join!(following.run(sink, &stop), stop.run_until_cancelled(self.mind(node)));
    }

    async fn mind(&self, mut watched: watch::Receiver<Report>) {
        let (start, mut course, mut missing) =
            (Instant::now(), TaintSchedule::default(), self.readiness.changes());
        let mut response = Response::default();
        let mut wanted = Wanted::new(&self.settings);
        let mut installs = self.installs.clone();
        loop {
            if !*installs.borrow() {
                course = TaintSchedule::default();
                if installs.wait_for(|installs| *installs).await.is_err() {
                    return;
                }
            }
            let right = missing.borrow_and_update().is_ready();
            let settings = wanted.number();
            let report = watched.borrow_and_update().clone();
            let Some(node) = response.newest(&report, start.elapsed()) else {
                // Told of nothing yet: readiness counts from now on all the same.
                course.decide(Seen { tainted: right, right, settings }, start.elapsed());
                tokio::select! {
                    changed = watched.changed() => if changed.is_err() { return },
                    Ok(()) = missing.changed() => {}
                    Ok(()) = wanted.settings.changed() => {}
                }
                continue;
            };
            let tainted = has(node.taints.as_deref(), &self.key);
            let was_by_setting = course.by_setting;
            let next = course.decide(Seen { tainted, right, settings }, start.elapsed());
            if course.by_setting && !was_by_setting {
                tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint is not added: the plugin is not ready since its settings changed");
            }
            let until = match next {
                Next::Do(deed) => {
                    let change = self.change(&node, deed, why(deed), Retries::Endless);
                    let outcome =
                        change.make(&self.client, REQUEST_LIMIT, &self.metrics, &self.recorder).await.outcome;
                    course.ended(&outcome, start.elapsed());
                    if let PatchOutcome::Done(node) | PatchOutcome::Conflict(node) = outcome {
                        response.hold(node, report.number, start.elapsed());
                    }
                    continue;
                }
                Next::Wait(until) => {
                    let until = until.into_iter().chain(response.until(&report)).min();
                    until.map_or(Duration::MAX, |until| until.saturating_sub(start.elapsed()))
                }
            };
            tokio::select! {
                changed = watched.changed() => if changed.is_err() { return },
                Ok(()) = missing.changed() => {}
                Ok(()) = wanted.settings.changed() => {}
                () = pause(until) => {}
            }
        }
    }

    fn change(&self, node: &Node, deed: Deed, why: &str, retries: Retries) -> TaintChange {
        let patch = patch(node.taints.as_deref(), &self.key, deed);
        let (taint, why) = (self.key.clone(), why.to_owned());
        TaintChange { node: self.node.clone(), taint, deed, patch, why, retries }
    }

    /// Puts it back, as everything is about to be uninstalled. It is tried for a few seconds: the process has to end.
    pub async fn restore(&self) {
        if timeout(RESTORE_LIMIT, self.put_back()).await.is_err() {
            tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint was not added in time");
        }
    }

    /// Until the node has it or is gone, or the API server denies it, also because the account is gone: what is left of the time is the uninstall's.
    async fn put_back(&self) {
        let path = format!("/api/v1/nodes/{}", self.node);
        for failures in 1.. {
            let ended = match self.client.get::<Node>(&path, RESTORE_REQUEST_LIMIT).await {
                Ok(node) if has(node.taints.as_deref(), &self.key) => return,
                Ok(node) => {
                    let change = self.change(&node, Deed::Add, "the plugin is uninstalled", Retries::Bounded);
                    change.make(&self.client, RESTORE_REQUEST_LIMIT, &self.metrics, &self.recorder).await
                }
                Err(error) => {
                    tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint was not added: {error}");
                    Ended::failed(error)
                }
            };
            let is_final = |error: &ApiError| {
                matches!(error, ApiError::Unauthorized(_) | ApiError::Forbidden(_))
                    || error.is_gone(&self.node)
            };
            if ended.error.as_ref().is_none_or(is_final) {
                return;
            }
            pause(wait(failures).unwrap_or_default()).await;
        }
    }
}

/// Numbers what should be installed: a change of levels of the log, say, is none.
struct Wanted {
    settings: watch::Receiver<Arc<Settings>>,
    last: Arc<Settings>,
    number: u64,
}

impl Wanted {
    fn new(settings: &watch::Receiver<Arc<Settings>>) -> Self {
        let last = settings.borrow().clone();
        Self { settings: settings.clone(), last, number: 0 }
    }

    /// Generation of the present settings.
    fn number(&mut self) -> u64 {
        let now = self.settings.borrow_and_update().clone();
        let installed = |of: &Settings| (of.chain.clone(), of.entry.clone(), of.kubeconfig.clone());
        self.number += u64::from(installed(&now) != installed(&self.last));
        self.last = now;
        self.number
    }
}

fn why(deed: Deed) -> &'static str {
    match deed {
        Deed::Add => "the plugin has not been ready for 30 s",
        Deed::Remove => "the plugin is installed and ready",
    }
}

#[cfg(test)]
mod tests;
